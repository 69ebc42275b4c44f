"""Where the time goes between an nn.Module and level `linalg`.

    python benchmarks/import_time.py [--repeat 3] [--json] [model ...]

Medians in seconds: `export` is torch.export, `decomposition` is PyTorch's
run_decompositions (both PyTorch's own time), `import` is from the decomposed program to
bytecode, `lowering` from bytecode to level `linalg` with composites. `ours` is the last
two together. Importing torch, torch_mlir and transformers is measured apart.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

START = time.perf_counter()
sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

import torch  # noqa: E402
from level_l import lower_bytecode  # noqa: E402
from zoo import ZOO  # noqa: E402

from lemurc.frontend.importer import import_programs  # noqa: E402
from lemurc.frontend.torch_export import EntryPoint, decompose, export  # noqa: E402
from lemurc.frontend.weights import WeightStore  # noqa: E402

LIBRARIES = time.perf_counter() - START
DEFAULT = ("resnet18", "bert", "gpt2", "llama", "minilm")


def timed(times: dict[str, list[float]], name: str, run: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    result = run()
    times.setdefault(name, []).append(time.perf_counter() - start)
    return result


def measure(name: str, repeat: int) -> dict[str, float]:
    times: dict[str, list[float]] = {}
    for _ in range(repeat):
        model, args = ZOO[name]()
        entry = EntryPoint(model, args)
        exported = timed(times, "export", lambda entry=entry: export(entry))
        decomposed = timed(times, "decomposition", lambda ep=exported: decompose(ep))
        programs = {"main": decomposed}
        mlir = timed(times, "import", lambda p=programs: import_programs(p, WeightStore()))
        timed(times, "lowering", lambda text=mlir: lower_bytecode(text))
    medians = {key: statistics.median(values) for key, values in times.items()}
    return medians | {"ours": medians["import"] + medians["lowering"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=DEFAULT)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(2)
    results = {name: measure(name, options.repeat) for name in options.models}
    if options.json:
        print(json.dumps({"libraries": LIBRARIES, "models": results}, indent=1))
        return
    print(f"importing libraries: {LIBRARIES:.2f} s")
    columns = ("export", "decomposition", "import", "lowering", "ours")
    print(f"{'model':16s}" + "".join(f"{column:>15s}" for column in columns))
    for name, row in results.items():
        print(f"{name:16s}" + "".join(f"{row[column]:15.3f}" for column in columns))


if __name__ == "__main__":
    main()
