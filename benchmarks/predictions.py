"""Predicted against measured stage times, on other cuts and sizes than those profiled.

    python benchmarks/predictions.py [--threads 1] [--json FILE]

Each family of models is profiled at some sizes: `lemurc.compile(..., profile=True)`, which
times single operations and the whole model. Scored are models of other sizes, whole and in
pieces of so many operations: every stage with its prediction, which no stage of that content
was measured for. Measured is the least of many calls, less the time that other programs had
the processors. The profiles go to a cache of their own.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CUTS = (None, 4, 9)
SHORTEST = 100e-6
"""Stages that take less are mostly the cost of a call; they are printed, not scored."""


@dataclass(frozen=True)
class Size:
    """Width, heads or channels by family, and tokens or pixels."""

    width: int
    length: int


@dataclass(frozen=True)
class Family:
    build: Callable[[Size], Any]
    profiled: tuple[Size, ...]
    scored: tuple[Size, ...]


def bert(size: Size) -> Any:
    import torch
    from transformers import BertConfig, BertModel
    from workloads import Pick

    config = BertConfig(
        hidden_size=size.width,
        num_hidden_layers=2,
        num_attention_heads=size.width // 64,
        intermediate_size=4 * size.width,
        vocab_size=2000,
    )
    model = Pick(BertModel(config).eval(), "last_hidden_state")
    return model, (torch.randint(0, 2000, (1, size.length)),)


def gpt2(size: Size) -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    from workloads import Pick

    config = GPT2Config(
        n_embd=size.width, n_layer=2, n_head=size.width // 64, vocab_size=4000, n_positions=512
    )
    model = Pick(GPT2LMHeadModel(config).eval(), "logits", use_cache=False)
    return model, (torch.randint(0, 4000, (1, size.length)),)


def resnet(size: Size) -> Any:
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification
    from workloads import Pick

    config = ResNetConfig(
        depths=[1, 1, 1, 1],
        embedding_size=size.width,
        hidden_sizes=[size.width * k for k in (1, 2, 4, 8)],
        layer_type="basic",
        num_labels=100,
    )
    model = Pick(ResNetForImageClassification(config).eval(), "logits")
    return model, (torch.randn(1, 3, size.length, size.length),)


TOKENS = (Size(256, 96), Size(512, 128), Size(320, 192)), (Size(384, 112), Size(448, 160))
PIXELS = (Size(32, 160), Size(64, 224), Size(40, 256)), (Size(48, 192), Size(64, 176))
FAMILIES = {
    "bert": Family(bert, *TOKENS),
    "gpt2": Family(gpt2, *TOKENS),
    "resnet": Family(resnet, *PIXELS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--rounds", type=int, default=1, help="times to profile each size")
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds for each model")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    from lemurc.runtime.devices import set_cpu_threads
    from lemurc.targets.cache import default_directory

    set_cpu_threads(options.threads)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        # Code compiled before may be reused, profiles may not.
        own = Path(folder, "cache")
        own.mkdir()
        stages = default_directory() / "stages"
        stages.mkdir(parents=True, exist_ok=True)
        (own / "stages").symlink_to(stages)
        os.environ["LEMURC_CACHE_DIR"] = str(own)
        for name in options.families:
            for _ in range(options.rounds):
                profile(FAMILIES[name], Path(folder))
            for row in score(name, FAMILIES[name], Path(folder), options.calls, options.limit):
                rows.append(row)
                print(line(row), flush=True)
    summary(rows)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


def profile(family: Family, folder: Path) -> None:
    import lemurc

    for size in family.profiled:
        model, args = family.build(size)
        output = folder / "profiled.lemur"
        lemurc.compile(model, args, targets="cpu:host", output=output, verify=False, profile=True)


def score(
    name: str, family: Family, folder: Path, calls: int, limit: float
) -> Iterator[dict[str, Any]]:
    import lemurc

    for size in family.scored:
        model, args = family.build(size)
        for cut in CUTS:
            output = folder / "scored.lemur"
            lemurc.compile(
                model, args, targets="cpu:host", output=output, verify=False, largest_stage=cut
            )
            with lemurc.load(output) as session:
                golden = session.artifact.golden("main")
                assert golden is not None
                timed = session.step_times("main", golden[0], calls=calls, limit=limit)
                predicted = session.plan.predicted["main"].seconds_by_step
                for step, seconds in zip(timed, predicted, strict=True):
                    yield {
                        "model": f"{name} {size.width}x{size.length}",
                        "cut": cut,
                        "stage": step.step.stage,
                        "work": [w.kind for w in session.manifest.stages[step.step.stage].work],
                        "predicted": seconds,
                        "measured": step.minimum,
                        "calls": len(step.seconds),
                    }


def line(row: dict[str, Any]) -> str:
    cut = "whole" if row["cut"] is None else f"by {row['cut']}"
    predicted, measured = row["predicted"] * 1e3, row["measured"] * 1e3
    work = ", ".join(row["work"][:4]) + (", ..." if len(row["work"]) > 4 else "")
    return (
        f"{row['model']:16}{cut:>6} {row['stage']:>4} predicted {predicted:8.3f} ms  measured "
        f"{measured:8.3f} ms  {predicted / measured - 1:+5.0%}  {work}"
    )


def summary(rows: list[dict[str, Any]]) -> None:
    scored = [row for row in rows if row["measured"] >= SHORTEST]
    for title, chosen in (
        ("whole models", [row for row in scored if row["cut"] is None]),
        ("pieces", [row for row in scored if row["cut"] is not None]),
        ("all", scored),
    ):
        if chosen:
            errors = [abs(row["predicted"] / row["measured"] - 1) for row in chosen]
            weights = [row["measured"] for row in chosen]
            weighted = sum(e * w for e, w in zip(errors, weights, strict=True)) / sum(weights)
            print(
                f"{title}: {len(chosen)} stages of {SHORTEST * 1e6:.0f} us and more, mean error "
                f"{sum(errors) / len(errors):.1%}, {weighted:.1%} weighted by time"
            )


if __name__ == "__main__":
    main()
