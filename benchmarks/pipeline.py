"""What a second, slower device gains: plans made for unequal devices, run on simulated ones.

    python benchmarks/pipeline.py [--slowdowns 4,2] [--layers 12] [--stretch 4] [--json FILE]
    python benchmarks/pipeline.py --batch 16 [--micro-batches 2,4,8] [--layers 4]
    python benchmarks/pipeline.py --zoo [--only bert,gpt2]

A transformer is compiled for a fast device and one that is so many times slower: with
`--objective throughput`, and with half of the layers pinned to each. Streams of requests on
the fast device alone, on both plans, take turns; reported is the median over rounds of the
ratio to the fast device in the same round. The bound is the sum of the speeds.

`--batch B` compares one call of a batch of B cut in micro-batches with one that is not, on two
devices that are equally fast.

`--zoo` compares one call of the latency plan with one of the best single device, for every
model of test/zoo.py.

Each simulated device computes on one thread. `--stretch K` makes all of them, and the links, K
times slower, so that other work on the machine does not show; ratios stay as they are.
"""

import argparse
import importlib.util
import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LINK = {"latency": 5e-5, "bandwidth": 1e10}
ROUNDS, SECONDS = 9, 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--slowdowns", default="4,2", help="of the second device")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--stretch", type=float, default=1.0)
    parser.add_argument("--batch", type=int, help="measure calls cut in micro-batches")
    parser.add_argument("--micro-batches", default="2,4,8", help="how many, between commas")
    parser.add_argument("--zoo", action="store_true")
    parser.add_argument("--only", help="models of the zoo, between commas")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure = zoo if chosen.zoo else micro_batches if chosen.batch else pipelines
        rows = measure(chosen, Path(folder))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n")


def system(slowdown: float, stretch: float, planned: bool = False) -> Any:
    """A fast device and a slow one; `planned` leaves the stretch to the simulation."""
    from lemurc.system_file import DeviceDescription, LinkDescription, SystemDescription

    times = 1.0 if planned else stretch
    link = LinkDescription(
        "cpu:0", "cpu:1", LINK["latency"] * times, {"1": LINK["bandwidth"] / times}
    )
    devices = [
        DeviceDescription(name, "cpu", threads=1, slowdown=s * times)
        for name, s in (("cpu:0", 1.0), ("cpu:1", slowdown))
    ]
    return SystemDescription(tuple(devices), (link,))


def pipelines(chosen: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    import lemurc
    from lemurc.system_file import write_system

    model, args = transformer(chosen.layers, chosen.width, chosen.tokens)
    rows = []
    print(
        f"{chosen.layers} layers, width {chosen.width}, {chosen.tokens} tokens; one thread for "
        f"each device, all times stretched {chosen.stretch:g}x"
    )
    for slowdown in map(float, chosen.slowdowns.split(",")):
        file = folder / "system.json"
        write_system(file, system(slowdown, chosen.stretch, planned=True))
        half = [
            f"model.encoder.layer.{k}=cpu:{2 * k // chosen.layers}" for k in range(chosen.layers)
        ]
        half += [pin.replace("=", ".*=") for pin in half]
        plans = {"automatic": {"objective": "throughput"}, "even split": {"pins": tuple(half)}}
        simulate = system(slowdown, chosen.stretch)
        sessions = {}
        for name, options in plans.items():
            path = folder / f"{name}.lemur"
            lemurc.compile(model, args, output=path, system=file, golden="none", **options)
            sessions[name] = lemurc.load(path, simulate=simulate)
        sessions["fast alone"] = lemurc.load(path, simulate=simulate, devices=["cpu:0"])
        sessions["slow alone"] = lemurc.load(path, simulate=simulate, devices=["cpu:1"])
        rates = in_turns({name: Stream(session, args) for name, session in sessions.items()})
        bound = 1 + 1 / slowdown
        print(f"\nsecond device {slowdown:g}x slower: at most {bound:.3g}x the fast device alone")
        for name, session in sessions.items():
            pairs = zip(rates[name], rates["fast alone"], strict=True)
            ratio = statistics.median(mine / fast for mine, fast in pairs)
            row = {
                "slowdown": slowdown,
                "plan": name,
                "per_second": statistics.median(rates[name]),
                "ratio": ratio,
                "of_bound": ratio / bound,
                "depth": session.stream_depth(),
                "placement": session.placement_line(),
            }
            rows.append(row)
            print(
                f"  {name:11} {row['per_second']:7.2f} requests/s  {ratio:5.3f}x  "
                f"{row['of_bound']:4.0%} of the bound  depth {row['depth']}"
            )
            session.close()
    return rows


def micro_batches(chosen: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    import lemurc
    from lemurc.system_file import write_system

    model, args = transformer(chosen.layers, chosen.width, chosen.tokens, chosen.batch)
    write_system(folder / "system.json", system(1.0, chosen.stretch, planned=True))
    simulate = system(1.0, chosen.stretch)
    sessions = {}
    for count in (1, "auto", *map(int, chosen.micro_batches.split(","))):
        path = folder / f"{count}.lemur"
        options = {"objective": "throughput", "micro_batches": count, "golden": "none"}
        lemurc.compile(model, args, output=path, system=folder / "system.json", **options)
        sessions[str(count)] = lemurc.load(path, simulate=simulate)
    cut = sessions["auto"].plan.micro_batches
    chosen_count = cut["main"].count if cut else 1
    rates = in_turns({name: Calls(session, args) for name, session in sessions.items()})
    whole = sessions["1"].simulated
    rows = []
    print(
        f"{chosen.layers} layers, width {chosen.width}, batch {chosen.batch} of {chosen.tokens} "
        f"tokens; two devices of one thread each, all times stretched {chosen.stretch:g}x; auto "
        f"is {chosen_count}"
    )
    for name, session in sessions.items():
        pairs = zip(rates[name], rates["1"], strict=True)
        ratio = statistics.median(mine / one for mine, one in pairs)
        values = max(
            (device.peak_bytes - device.weight_bytes) / (one.peak_bytes - one.weight_bytes)
            for device, one in zip(session.simulated, whole, strict=True)
        )
        per_second = statistics.median(rates[name])
        rows.append({"micro_batches": name, "ratio": ratio, "per_second": per_second,
                     "values_to_whole": values})  # fmt: skip
        print(
            f"  {name:>4} micro-batches  {per_second:7.2f} calls/s  {ratio:5.3f}x  "
            f"{values:4.0%} of the memory of values"
        )
        session.close()
    return rows


class Stream:
    """Requests answered in a turn; the stream stays open and full between turns."""

    def __init__(self, session: Any, args: tuple[Any, ...]) -> None:
        self._session, self._args = session, args

    def rate(self) -> float:
        """Per second, from when the devices are busy."""
        results = self._session.stream(itertools.repeat(self._args))
        for _ in range(self._session.stream_depth()):
            next(results)
        begin, count, elapsed = time.perf_counter(), 0, 0.0
        while elapsed < SECONDS or count < 5:
            next(results)
            count, elapsed = count + 1, time.perf_counter() - begin
        results.close()
        return count / elapsed


class Calls:
    """Calls one after another."""

    def __init__(self, session: Any, args: tuple[Any, ...]) -> None:
        self._session, self._args = session, args

    def rate(self) -> float:
        self._session(*self._args)
        times = []
        while sum(times) < SECONDS / 4 or len(times) < 5:
            begin = time.perf_counter()
            self._session(*self._args)
            times.append(time.perf_counter() - begin)
        return 1 / statistics.median(times)


def in_turns(peers: dict[str, Any]) -> dict[str, list[float]]:
    """The rates of each, a round at a time, in alternating direction."""
    rates: dict[str, list[float]] = {name: [] for name in peers}
    for number in range(ROUNDS):
        for name in list(peers)[:: 1 if number % 2 else -1]:
            rates[name].append(peers[name].rate())
    return rates


def zoo(chosen: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    import lemurc
    from lemurc.system_file import write_system

    rows = []
    slowdown = float(chosen.slowdowns.split(",")[0])
    write_system(folder / "system.json", system(slowdown, chosen.stretch, planned=True))
    models = read_zoo()
    for name in chosen.only.split(",") if chosen.only else models:
        model, args = models[name]()
        path = folder / f"{name}.lemur"
        lemurc.compile(
            model, args, output=path, system=folder / "system.json", golden="none", verify=False
        )
        simulate = system(slowdown, chosen.stretch)
        sessions = {
            "plan": lemurc.load(path, simulate=simulate),
            "fast alone": lemurc.load(path, simulate=simulate, devices=["cpu:0"]),
            "slow alone": lemurc.load(path, simulate=simulate, devices=["cpu:1"]),
        }
        rates = in_turns({key: Calls(session, args) for key, session in sessions.items()})
        singles = zip(rates["fast alone"], rates["slow alone"], strict=True)
        ratio = statistics.median(
            max(single) / mine for mine, single in zip(rates["plan"], singles, strict=True)
        )
        rows.append({"model": name, "time_to_best_single": ratio})
        used = ", ".join(sessions["plan"].devices)
        print(f"{name:16} {ratio:5.3f} of the best single device's time, on {used}", flush=True)
        for session in sessions.values():
            session.close()
    return rows


def transformer(layers: int, width: int, tokens: int, batch: int = 1) -> Any:
    import torch
    from transformers import BertConfig, BertModel
    from workloads import Pick

    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        vocab_size=2000,
    )
    model = Pick(BertModel(config).eval(), "last_hidden_state")
    return model, (torch.randint(0, 2000, (batch, tokens)),)


def read_zoo() -> Any:
    path = Path(__file__).parents[1] / "test" / "zoo.py"
    spec = importlib.util.spec_from_file_location("lemurc_zoo", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["lemurc_zoo"] = module
    spec.loader.exec_module(module)
    return module.ZOO


if __name__ == "__main__":
    main()
