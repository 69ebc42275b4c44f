import os
import random

import pytest

from lemurc.targets.cache import Cache, cache_key, default_directory


def test_what_was_put_comes_back(tmp_path):
    cache = Cache(tmp_path)
    assert cache.get("ab12") is None
    cache.put("ab12", b"module")
    assert cache.get("ab12") == b"module"


@pytest.mark.parametrize("damage", [b"", b"x" * 10, b"x" * 100])
def test_a_damaged_entry_is_a_miss(tmp_path, damage):
    cache = Cache(tmp_path)
    cache.put("ab12", b"module" * 20)
    (entry,) = tmp_path.glob("stages/*/*")
    entry.write_bytes(damage)
    assert cache.get("ab12") is None
    cache.put("ab12", b"again")
    assert cache.get("ab12") == b"again"


def test_the_least_recently_used_entries_go(tmp_path):
    cache = Cache(tmp_path, max_bytes=5 * (100 + 32))
    for number in range(5):
        cache.put(f"{number:04}", bytes(100))
        os.utime(tmp_path / "stages" / "00" / f"{number:04}", (number, number))
    assert cache.get("0000") is not None
    cache.put("0005", bytes(100))
    kept = {path.name for path in tmp_path.glob("stages/*/*")}
    assert kept == {"0000", "0002", "0003", "0004", "0005"}
    assert cache.size() <= cache.max_bytes


def test_clear_tells_what_it_freed(tmp_path):
    cache = Cache(tmp_path)
    cache.put("ab12", bytes(68))
    assert cache.clear() == 100
    assert cache.get("ab12") is None


def test_a_folder_that_cannot_be_made_stores_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "below")
    cache.put("ab12", b"module")
    assert cache.get("ab12") is None


def test_every_change_of_an_input_changes_the_key():
    rng = random.Random(0)

    def word(length: int) -> str:
        return "".join(rng.choice("ab-=") for _ in range(length))

    seen: dict[str, tuple[object, ...]] = {}
    for _ in range(3000):
        flags = tuple(word(rng.randrange(3)) for _ in range(rng.randrange(4)))
        parts = (word(rng.randrange(3)).encode(), flags, word(2))
        key = cache_key(*parts)
        assert seen.setdefault(key, parts) == parts


def test_the_environment_chooses_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("LEMURC_CACHE_DIR", str(tmp_path))
    assert default_directory() == tmp_path
    monkeypatch.delenv("LEMURC_CACHE_DIR")
    assert default_directory().name in ("lemurc", "cache")
