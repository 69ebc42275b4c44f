"""docs/pjrt.md: the script that converts level T to StableHLO, and what StableHLO's own
interpreter, in torch-mlir's wheel, makes of that."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as stablehlo

SCRIPT = Path(__file__).parents[2] / "examples" / "stablehlo" / "to_stablehlo.py"
MODEL = """
import torch

def build():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8), torch.nn.Softmax(-1)]
    return torch.nn.Sequential(*layers).eval(), (torch.randn(4, 8),)
"""


def test_a_model_as_stablehlo_answers_as_eager_does(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    command = [sys.executable, str(SCRIPT), str(tmp_path), f"{tmp_path / 'net.py'}:build"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "net: 5 arguments, 1 results" in ran.stdout and "0 refused" in ran.stdout
    call = np.load(tmp_path / "net" / "call.npz")

    def array(name: str) -> np.ndarray:
        return call[name].view(str(call[f"{name}.dtype"])).reshape(call[f"{name}.shape"])

    with ir.Context() as context:
        stablehlo.register_dialect(context)
        artifact = (tmp_path / "net" / "module.stablehlo").read_bytes()
        module = stablehlo.deserialize_portable_artifact(context, artifact)
        given = [ir.DenseElementsAttr.get(array(f"argument{n}")) for n in range(5)]
        (result,) = stablehlo.eval_module(module, given)
        np.testing.assert_allclose(np.array(result), array("result0"), rtol=1e-5, atol=1e-7)
