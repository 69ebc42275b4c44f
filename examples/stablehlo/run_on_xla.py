"""Runs what to_stablehlo.py wrote on XLA's client for CPUs, and compares with eager.

python run_on_xla.py FOLDER          # needs jax; no lemurc, no torch
"""

import sys
from pathlib import Path

import jax
import ml_dtypes  # noqa: F401
import numpy as np
from jax.extend.backend import get_backend
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

TOLERANCE = {"float64": 1e-7, "float32": 1e-4, "float16": 1e-2, "bfloat16": 2e-2}
"""Of the largest value, as lemurc has them; all else is exact."""


def run(folder: Path) -> str:
    """ "" when XLA answers as eager does, else what it does."""
    call = np.load(folder / "call.npz")
    with ir.Context() as context:
        stablehlo.register_dialect(context)
        artifact = (folder / "module.stablehlo").read_bytes()
        text = str(stablehlo.deserialize_portable_artifact(context, artifact))
    client = get_backend("cpu")
    executable = client.compile_and_load(text, client.local_devices()[:1])
    arguments = [jax.device_put(array) for array in _arrays(call, "argument")]
    worst = 0.0
    for got, want in zip(executable.execute(arguments), _arrays(call, "result"), strict=True):
        array = np.asarray(got)
        if (array.shape, array.dtype) != (want.shape, want.dtype):
            return f"{array.dtype}{list(array.shape)} instead of {want.dtype}{list(want.shape)}"
        wide, right = (a.astype(np.float64) for a in (array, want))
        finite = np.isfinite(right)
        if not np.array_equal(wide[~finite], right[~finite], equal_nan=True):
            return "NaN or infinities in other places"
        error = np.abs(wide[finite] - right[finite]).max(initial=0.0)
        worst = max(worst, error / (np.abs(right[finite]).max(initial=0.0) or 1.0))
        if worst > TOLERANCE.get(str(want.dtype), 0.0):
            return f"error {worst:.2g} of the largest value"
    return ""


def _arrays(call: "np.lib.npyio.NpzFile", kind: str) -> list[np.ndarray]:
    names = [f"{kind}{n}" for n in range(len(call)) if f"{kind}{n}" in call]
    return [
        call[name].view(np.dtype(str(call[f"{name}.dtype"]))).reshape(call[f"{name}.shape"])
        for name in names
    ]


def main(folder: Path) -> None:
    jax.config.update("jax_enable_x64", True)
    wrong = 0
    models = sorted(path.parent for path in folder.glob("*/module.stablehlo"))
    for model in models:
        try:
            said = run(model)
        except Exception as error:
            said = f"{type(error).__name__}: {error}".partition("\n")[0][:160]
        wrong += bool(said)
        print(f"{model.name}: {said or 'as eager'}")
    print(f"jax {jax.__version__}: {len(models) - wrong} of {len(models)} as eager")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
