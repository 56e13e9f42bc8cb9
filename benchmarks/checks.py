"""What the trust checks cost, of an analysis and alone.

    python benchmarks/checks.py DIR [--impressions 20000000] [--runs 3] [--plan everything]

Over the log of `benchmarks/analysis.py` (made in DIR where there is none), with the default 2,000
A/A replays: processor time of `analyze`, how much of it are checks, part by part, and processor
time of `check`, which computes nothing else. `additive` has three metrics, `everything` has 22.
Every run is a process of its own; imports are not counted.
"""

import argparse
import importlib
import json
import multiprocessing
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from analysis import HEAD, METRICS, make
from process import run

import abeval
from abeval.inference.compare import Analysis, compare_all

PARTS = {
    "audits": ("abeval.aggregates.collect", "audit_sums"),
    "files that lack a column": ("abeval.aggregates.collect", "lacking_sums"),
    "A/A replays": ("abeval.inference.judge", "aa_of"),
    "checks": ("abeval.inference.judge", "trust_checks"),
    "influence": ("abeval.inference.judge", "influences"),
    "split by day": ("abeval.inference.judge", "split_days"),
    "split by place": ("abeval.inference.judge", "split_places"),
}
SUMS = "sums for A/A replays"


def plan(directory: Path, name: str) -> Path:
    """The experiment file, with the checks' defaults."""
    listed = "\n".join(f'[[metrics]]\nname = "{metric}"' for metric in METRICS[name])
    items = '[logs.items]\npath = "items.parquet"\n' if name == "everything" else ""
    file = directory / f"checks_{name}.toml"
    file.write_text(f"{HEAD}{items}{listed}\n")
    return file


def timed(spent: Counter[str], part: str, function: Callable[..., object]) -> Callable[..., object]:
    """The function, which adds its processor time to that of a part."""

    @wraps(function)
    def wrapped(*given: object, **named: object) -> object:
        began = time.process_time()
        try:
            return function(*given, **named)
        finally:
            spent[part] += time.process_time() - began

    return wrapped


def _after_comparisons(function: Callable[..., object]) -> Callable[..., object]:
    def wrapped(analysis: Analysis) -> object:
        len(compare_all(analysis))
        return function(analysis)

    return wrapped


def watched() -> Counter[str]:
    """Processor time by part of the checks, from now on."""
    from abeval.aggregates.source_values import SourceValues

    spent: Counter[str] = Counter()
    for part, (module, name) in PARTS.items():
        home = importlib.import_module(module)
        setattr(home, name, timed(spent, part, getattr(home, name)))
    judge = importlib.import_module("abeval.inference.judge")
    # The scorecard's comparisons are computed when they are first read: not on the checks' account.
    setattr(judge, "aa_of", _after_comparisons(judge.aa_of))  # noqa: B010
    for part, name in ((SUMS, "buckets"), ("largest units", "extremes")):
        setattr(SourceValues, name, timed(spent, part, getattr(SourceValues, name)))
    return spent


def side(file: Path, what: str) -> None:
    """Run one side in this process and print its costs as JSON."""
    loaded = abeval.load(file)
    importlib.import_module("abeval.pipeline")
    spent: Counter[str] = watched() if what == "analyze" else Counter()
    began = time.process_time()
    result = loaded.analyze() if what == "analyze" else loaded.check()
    total = time.process_time() - began
    costs = {"total": total, "number of checks": len(result.trust), **spent}
    sys.stdout.write(json.dumps(costs) + "\n")


def main() -> None:
    """Run both sides in turns, print medians and shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--impressions", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--plan", choices=list(METRICS), default="everything")
    parser.add_argument("--side", choices=["analyze", "check"])
    options = parser.parse_args()
    directory = options.directory.resolve()
    if not (directory / "impressions").exists():
        maker = multiprocessing.Process(target=make, args=(directory, options.impressions))
        maker.start()
        maker.join()
    file = plan(directory, options.plan)
    if options.side is not None:
        side(file, options.side)
        return
    here = [sys.executable, str(Path(__file__).resolve()), str(directory), "--plan", options.plan]
    costs: dict[str, list[dict[str, float]]] = {"analyze": [], "check": []}
    for _ in range(options.runs):
        for what, seen in costs.items():
            seen.append(json.loads(run([*here, "--side", what]).printed.splitlines()[-1]))
    middle = {
        what: {part: statistics.median(one[part] for one in seen) for part in seen[0]}
        for what, seen in costs.items()
    }
    whole = middle["analyze"].pop("total")
    number = middle["analyze"].pop("number of checks")
    checks = sum(middle["analyze"].values())
    lines = [f"{part:26s}{seconds:8.2f} s" for part, seconds in middle["analyze"].items()]
    lines += [
        f"{number:.0f} checks of analyze{'':8s}{checks:8.2f} s",
        f"{'all else of analyze':26s}{whole - checks:8.2f} s",
        f"checks / all else: {checks / (whole - checks):.2f}",
        f"check alone {middle['check']['total']:.2f} s, "
        f"{middle['check']['total'] / whole:.2f} of analyze ({whole:.2f} s)",
    ]
    sys.stdout.write("\n".join([f"{options.plan}, processor time, median", *lines]) + "\n")


if __name__ == "__main__":
    main()
