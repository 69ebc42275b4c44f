"""The file format: alignment, reproducibility, and every kind of damage."""

import dataclasses
import hashlib
import itertools
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import lemurc
from lemurc.errors import ArtifactError, UsageError
from lemurc.manifest import Golden, Manifest, TensorFile
from lemurc.runtime import container
from lemurc.runtime.artifact import Artifact, write

WEIGHTS = {
    "b": np.arange(7, dtype=np.float32),
    "a": np.ones((3, 5), ml_dtypes.bfloat16),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.array(3, np.int64),
    "strided": np.arange(12, dtype=np.int8).reshape(3, 4).T,
}
WEIGHTS["tied"] = WEIGHTS["b"]
GOLDEN = Golden((TensorFile("golden/x", "float32", (2,)),), ())
ENTRIES = {
    "modules/one.vmfb": b"code" * 1000,
    "golden/x": np.array([1, 2], np.float32).tobytes(),
    "empty": b"",
}
MANIFEST = Manifest("m", {}, {}, (), golden={"main": GOLDEN})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "m.lemur", MANIFEST, ENTRIES, WEIGHTS)
    return tmp_path / "m.lemur"


def code_of(path: Path, **options: bool) -> str:
    with pytest.raises(ArtifactError) as caught:
        Artifact.open(path, **options)
    assert caught.value.exit_status == 5
    assert caught.value.hint and str(path) in str(caught.value)
    return caught.value.code


def test_what_is_written_is_read(path):
    with Artifact.open(path) as artifact:
        for name, weight in WEIGHTS.items():
            got = artifact.weight(name)
            assert got.dtype == weight.dtype and got.shape == weight.shape
            np.testing.assert_array_equal(got, weight)
            assert not got.flags.writeable
            if got.size:
                assert got.ctypes.data % 64 == 0
        assert artifact.manifest.weights["tied"] == artifact.manifest.weights["b"]
        assert artifact.entry("modules/one.vmfb").tobytes() == ENTRIES["modules/one.vmfb"]
        inputs, outputs = artifact.golden("main")
        assert inputs[0].tolist() == [1, 2] and outputs == []
        assert artifact.golden("other") is None


def test_views_outlive_the_artifact(path):
    artifact = Artifact.open(path)
    weight = artifact.weight("b")
    artifact.close()
    del artifact
    np.testing.assert_array_equal(weight, WEIGHTS["b"])


def test_it_is_a_zip_with_aligned_entries_and_true_hashes(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        files = Artifact.open(path).manifest.files
        for name, described in files.items():
            assert hashlib.sha256(archive.read(name)).hexdigest() == described["sha256"]
        assert set(files) == set(ENTRIES) | {"weights.irpa"}
    with Artifact.open(path) as artifact:
        for name in files:
            view = artifact.entry(name)
            if len(view):
                assert np.frombuffer(view, np.uint8).ctypes.data % 4096 == 0


def test_the_weights_are_an_irpa_archive_to_others(path, tmp_path):
    from iree.runtime import ParameterIndex

    (tmp_path / "w.irpa").write_bytes(Artifact.open(path).entry("weights.irpa"))
    index = ParameterIndex()
    index.load(str(tmp_path / "w.irpa"))
    names = {key for key, _ in index.items()}
    assert names == set(WEIGHTS) - {"tied"}


def test_same_input_same_bytes(path, tmp_path):
    code = """
import sys, pickle
from lemurc.runtime.artifact import write
path, manifest, entries, weights = pickle.load(sys.stdin.buffer)
write(path, manifest, dict(reversed(entries.items())), dict(reversed(weights.items())))
"""
    import pickle

    other = tmp_path / "elsewhere" / "n.lemur"
    other.parent.mkdir()
    weights = {name: array for name, array in WEIGHTS.items()}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        input=pickle.dumps((other, MANIFEST, ENTRIES, weights)),
        env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"},
    )
    assert done.returncode == 0
    assert other.read_bytes() == path.read_bytes()


def test_ranges_of_rows_are_stored_with_the_whole(tmp_path):
    """What begins where devices want no buffer to begin is stored by itself, columns too."""
    whole = np.arange(512 * 16, dtype=np.float32).reshape(512, 16)
    weights = {
        "w": whole,
        "w[0..96]": whole[:96],
        "w[96..512]": whole[96:],
        "w[:,0..8]": whole[:, :8],
        "odd": whole.reshape(-1)[1:100],
        "empty": whole[:0],
    }
    manifest = write(tmp_path / "r.lemur", MANIFEST, ENTRIES, weights)
    offset = {name: weight.offset for name, weight in manifest.weights.items()}
    assert offset["w[0..96]"] == offset["w"]
    assert offset["w[96..512]"] == offset["w"] + 96 * 64
    inside = range(offset["w"], offset["w"] + whole.nbytes)
    assert offset["odd"] not in inside and offset["w[:,0..8]"] not in inside
    with Artifact.open(tmp_path / "r.lemur") as artifact:
        for name, array in weights.items():
            assert np.array_equal(artifact.weight(name), array)


def test_entries_can_come_from_files(path, tmp_path):
    source = tmp_path / "one"
    source.write_bytes(ENTRIES["modules/one.vmfb"])
    write(tmp_path / "f.lemur", MANIFEST, {**ENTRIES, "modules/one.vmfb": source}, WEIGHTS)
    assert (tmp_path / "f.lemur").read_bytes() == path.read_bytes()


def test_every_flipped_bit_is_noticed(path):
    """One byte in each kind of place, and a sample of all the others."""
    good = path.read_bytes()
    places = {0, 8, 14, 30, 40, 4096, len(good) - 1, len(good) - 70, len(good) - 85}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            places |= {info.header_offset + k for k in (0, 14, 26, 28, 30, 60, 200)}
            start = good.index(b"PK\3\4", info.header_offset)
            places.add(start + 4)
    directory = good.rindex(b"PK\1\2")
    places |= set(range(directory, len(good), 7))
    places |= set(range(0, len(good), 509))
    for place in sorted(places):
        damaged = bytearray(good)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        assert code_of(path) in ("corrupt-artifact", "not-an-artifact"), place


def damage(good: bytes, kind: str, draw: random.Random) -> bytes:
    damaged = bytearray(good)
    start, stop = sorted(draw.sample(range(len(good)), 2))
    if kind == "bits":
        for _ in range(draw.randint(1, 8)):
            damaged[draw.randrange(len(good))] ^= 1 << draw.randrange(8)
    elif kind == "truncated":
        del damaged[start:]
    elif kind == "cut out":
        del damaged[start:stop]
    elif kind == "zeros":
        damaged[start:stop] = bytes(stop - start)
    elif kind == "moved":
        piece = bytes(damaged[start:stop])
        del damaged[start:stop]
        at = draw.randrange(len(damaged))
        damaged[at:at] = piece
    else:
        damaged += draw.randbytes(draw.randint(1, 4096))
    return bytes(damaged)


@pytest.mark.parametrize("kind", ["bits", "truncated", "cut out", "zeros", "moved", "added"])
def test_random_damage(path, kind):
    """A thousand in all; an error of another type or a crash fails."""
    good = path.read_bytes()
    draw = random.Random(kind)
    for number in range(160):
        damaged = damage(good, kind, draw)
        if damaged != good:
            path.write_bytes(damaged)
            assert code_of(path) in ("corrupt-artifact", "not-an-artifact"), number


def test_swapped_entries(path):
    """Each pair of entries with its contents exchanged: a proper zip, but not what was hashed."""
    with zipfile.ZipFile(path) as archive:
        contents = {info.filename: archive.read(info) for info in archive.infolist()}
        comment = archive.comment
    names = [name for name in contents if name != "manifest.json"]
    for one, other in itertools.combinations(names, 2):
        if contents[one] == contents[other]:
            continue
        swapped = {**contents, one: contents[other], other: contents[one]}
        with zipfile.ZipFile(path, "w") as archive:
            archive.comment = comment
            for name, content in swapped.items():
                archive.writestr(name, content)
        assert code_of(path) == "corrupt-artifact", (one, other)


def test_each_entry_is_verified(path):
    good = path.read_bytes()
    with Artifact.open(path) as artifact:
        ranges = dict(artifact._ranges)
    for name, (start, stop) in ranges.items():
        if start == stop:
            continue
        damaged = bytearray(good)
        damaged[(start + stop) // 2] ^= 0x10
        path.write_bytes(damaged)
        assert code_of(path) == "corrupt-artifact", name
        if name == "weights.irpa":
            Artifact.open(path, check_weights=False)
        else:
            assert code_of(path, check_weights=False) == "corrupt-artifact", name


@pytest.mark.parametrize("keep", [0, 1, 100, 5000, 9000, -1, -64, -500])
def test_truncated(path, keep):
    good = path.read_bytes()
    path.write_bytes(good[:keep])
    expected = "not-an-artifact" if keep in (0, 1) else "corrupt-artifact"
    assert code_of(path) == expected


def test_bytes_added_at_the_end(path):
    path.write_bytes(path.read_bytes() + b"x")
    assert code_of(path) == "corrupt-artifact"


def test_foreign_files(tmp_path):
    for name, content in {
        "text": b"hello" * 1000,
        "random": np.random.default_rng(0).bytes(10000),
    }.items():
        (tmp_path / name).write_bytes(content)
        assert code_of(tmp_path / name) == "not-an-artifact"
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("a", "b")
    assert code_of(tmp_path / "z.zip") == "not-an-artifact"


def test_missing_and_unreadable(tmp_path):
    assert code_of(tmp_path / "none.lemur") == "artifact-not-found"
    assert code_of(tmp_path) == "artifact-unreadable"


def test_another_version(tmp_path):
    write(tmp_path / "v.lemur", dataclasses.replace(MANIFEST, format=99), ENTRIES, {})
    assert code_of(tmp_path / "v.lemur") == "artifact-version"


def test_a_manifest_with_other_fields_of_this_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "to_json", lambda m: '{"format": 1, "files": {}, "new": 1}')
    write(tmp_path / "v.lemur", MANIFEST, {}, {})
    assert code_of(tmp_path / "v.lemur") == "corrupt-artifact"


def test_large_entries_are_hashed_in_blocks(tmp_path):
    weights = {"w": np.arange(9 << 20, dtype=np.int32)}
    manifest = write(tmp_path / "big.lemur", MANIFEST, ENTRIES, weights)
    assert len(manifest.files["weights.irpa"]["blocks"]) == 3
    Artifact.open(tmp_path / "big.lemur")
    with (tmp_path / "big.lemur").open("r+b") as file:
        file.seek(20 << 20)
        byte = file.read(1)[0]
        file.seek(20 << 20)
        file.write(bytes([byte ^ 1]))
    assert code_of(tmp_path / "big.lemur") == "corrupt-artifact"


def test_unwritable_output(tmp_path):
    for target in (tmp_path / "none" / "m.lemur", tmp_path / "file" / "m.lemur"):
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(UsageError) as caught:
            write(target, MANIFEST, ENTRIES, WEIGHTS)
        assert caught.value.code == "unwritable-output" and caught.value.exit_status == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError])
def test_nothing_half_written(path, monkeypatch, error):
    before = path.read_bytes()

    def fail(manifest: Manifest) -> str:
        raise error("stop")

    monkeypatch.setattr(container, "to_json", fail)
    with pytest.raises((error, UsageError)):
        write(path, MANIFEST, ENTRIES, WEIGHTS)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_permissions_follow_the_umask(path, tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "p.lemur", MANIFEST, ENTRIES, WEIGHTS)
    finally:
        os.umask(before)
    assert (tmp_path / "p.lemur").stat().st_mode & 0o777 == 0o640


def test_opening_imports_neither_iree_nor_torch(path):
    code = f"""
import sys
from lemurc.runtime.artifact import Artifact
Artifact.open({str(path)!r})
assert not [m for m in sys.modules if m.partition('.')[0] in ('iree', 'torch')]
"""
    assert subprocess.run([sys.executable, "-P", "-c", code]).returncode == 0


def test_a_damaged_artifact_never_becomes_a_session(adder, tmp_path):
    path = tmp_path / "bad.lemur"
    data = bytearray(adder.read_bytes())
    with Artifact.open(adder) as artifact:
        name = next(name for name in artifact.manifest.files if name.startswith("modules/"))
        data[artifact._ranges[name][0] + 100] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactError):
        lemurc.load(path, check_weights=False)


def test_weights_in_a_file_of_their_own(adder, tmp_path):
    with Artifact.open(adder) as artifact:
        manifest = artifact.manifest
        entries = {
            name: artifact.entry(name).tobytes()
            for name in manifest.files
            if name != "weights.irpa"
        }
        weights = {"w": artifact.weight("w").copy()}
    path = tmp_path / "outside.lemur"
    write(path, manifest, entries, weights, external_weights="outside.irpa")
    assert sorted(os.listdir(tmp_path)) == ["outside.irpa", "outside.lemur"]
    x = np.ones(4, np.float32)
    with lemurc.load(path) as session:
        np.testing.assert_array_equal(session(x), x + np.arange(4))
    good = (tmp_path / "outside.irpa").read_bytes()
    damaged = bytearray(good)
    damaged[Artifact.open(path).manifest.weights["w"].offset] ^= 1
    (tmp_path / "outside.irpa").write_bytes(damaged)
    assert code_of(path) == "corrupt-artifact"
    Artifact.open(path, check_weights=False)
    (tmp_path / "outside.irpa").write_bytes(good + b"x")
    assert code_of(path, check_weights=False) == "corrupt-artifact"
    (tmp_path / "outside.irpa").unlink()
    assert code_of(path, check_weights=False) == "weights-not-found"
