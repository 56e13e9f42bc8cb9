"""What the whole analysis says of healthy logs, and of faulty ones.

    python -m benchmarks.calibration.healthy_logs --runs 1000 --faulty 40 --keep runs.jsonl

Of each kind of `healthy_worlds` so many logs are drawn, in turn of each size and each effect on
clicks, and of each fault of `faulty_worlds`. A run is a line of the file that `--keep` names: a
command that was stopped goes on where it was, and one with more runs adds them.
"""

import argparse
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import abeval
from abeval.results.analysis import Result
from benchmarks.calibration.faulty_worlds import FAULTS
from benchmarks.calibration.healthy_worlds import DAYS, KINDS, START, World

SIZES = (1_000, 3_000, 20_000)
LIFTS = (0.0, 0.1, 0.2)
METRICS = ("clicks_per_user", "impressions_per_user", "sessions_per_user", "gauc")
FAILS, WARNS = 0.004, 0.04
"""At most such shares of healthy logs may fail, and warn."""


class Plan(NamedTuple):
    """A run: the kind of its log or its fault, its number, its users and its effect on clicks."""

    kind: str
    number: int
    seed: int
    users: int = 0
    lift: float = 0.0


class Run(NamedTuple):
    """What the analysis said of the log of a plan."""

    kind: str
    number: int
    seed: int
    users: int
    lift: float
    decisions: Sequence[str]
    fails: Sequence[str]
    warns: Sequence[str]
    seconds: float
    is_found: bool = False


def plans(
    kinds: Sequence[str], runs: int, sizes: Sequence[int], lifts: Sequence[float], seed: int
) -> list[Plan]:
    """List the runs: kinds, sizes and effects in turn, so that a part of them has all."""
    return [
        Plan(kind, i, seed, sizes[i % len(sizes)], lifts[i // len(sizes) % len(lifts)])
        for i in range(runs)
        for kind in kinds
    ]


def draw_world(plan: Plan) -> World:
    """Draw the world of a run."""
    random = np.random.default_rng([plan.seed, zlib.crc32(plan.kind.encode()), plan.number])
    if plan.kind in FAULTS:
        return FAULTS[plan.kind].draw(random)
    return KINDS[plan.kind](random, plan.users, plan.lift)


def analyze_world(world: World) -> Result:
    """Analyse a world as anybody would: with every check and the replays, of one goal."""
    end = START + np.timedelta64(DAYS, "D")
    entries: dict[str, Any] = {
        "name": "healthy",
        "unit": "user_id",
        "control": "control",
        "variants": {"control": {}, "treatment": {}},
        "period": {"start": START.astype("M8[D]").item(), "end": end.astype("M8[D]").item()},
        "logs": {name: {} for name in world.logs},
        "segments": {"device": "device"},
        "metrics": [{"name": "ctr", "role": "goal"}, *({"name": name} for name in METRICS)],
        "engine": {"threads": 1},
    }
    return abeval.define(**(entries | dict(world.entries))).analyze(logs=dict(world.logs))


def judge(plan: Plan) -> Run:
    """Draw and analyse the log of a run."""
    start = time.perf_counter()
    result = analyze_world(draw_world(plan))
    fails, warns = (
        [check.name for check in result.trust if check.status == status]
        for status in ("fail", "warn")
    )
    decisions = [verdict.decision for verdict in result.verdicts if verdict.variant != "third"]
    seconds = round(time.perf_counter() - start, 2)
    is_found = plan.kind in FAULTS and FAULTS[plan.kind].is_found(result)
    return Run(*plan, decisions, fails, warns, seconds, is_found)


def read_runs(file: Path | None) -> dict[Plan, Run]:
    """Read the runs that were kept."""
    if file is None or not file.exists():
        return {}
    runs = [Run(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    return {Plan(*run[:5]): run for run in runs}


def carry_out(todo: Sequence[Plan], processes: int, file: Path | None) -> Iterator[Run]:
    """Carry out runs, and keep each as soon as it is done."""
    with ProcessPoolExecutor(processes) as pool:
        for run in pool.map(judge, todo) if processes > 1 else map(judge, todo):
            if file is not None:
                with file.open("a", encoding="utf-8") as kept:
                    kept.write(json.dumps(run._asdict()) + "\n")
            yield run


def list_checks(runs: Iterable[Run], status: str) -> str:
    """List the checks that fail or warn in healthy logs, and in how many."""
    names = Counter(name for run in runs for name in getattr(run, status))
    return ", ".join(f"`{name}` {count}" for name, count in names.most_common()) or "–"


def write_table(runs: Sequence[Run]) -> Iterator[str]:
    """Write the table in Markdown, line by line: a row a kind, and one of all."""
    yield (
        "| kind | logs | not trusted | a check fails | which | warns | which | no effect: ship, "
        "stop | +20 %: not shipped, by users | seconds |"
    )
    yield "|---|--:|--:|--:|---|--:|---|--:|---|--:|"
    groups = {kind: [run for run in runs if run.kind == kind] for kind in KINDS}
    for kind, own in {**groups, "all": runs}.items():
        if not own:
            continue
        fails = sum(bool(run.fails) for run in own)
        warns = sum(bool(run.warns) and not run.fails for run in own)
        none = [run for run in own if not run.lift]
        decided = (sum(word in run.decisions for run in none) for word in ("ship", "do_not_ship"))
        missed = []
        for users in sorted({run.users for run in own if run.lift >= max(LIFTS)}):
            of_size = [run for run in own if run.users == users and run.lift >= max(LIFTS)]
            lost = sum("ship" not in run.decisions for run in of_size)
            missed.append(f"{users:,}: {lost} of {len(of_size)}")
        cells = (
            kind,
            f"{len(own):,}",
            sum("do_not_trust" in run.decisions for run in own),
            _share(fails, len(own), FAILS),
            list_checks(own, "fails"),
            _share(warns, len(own), WARNS),
            list_checks([run for run in own if not run.fails], "warns"),
            f"{', '.join(map(str, decided))} of {len(none)}",
            ", ".join(missed),
            f"{np.median([run.seconds for run in own]):.1f}",
        )
        yield f"| {' | '.join(map(str, cells))} |"


def write_faults(runs: Sequence[Run]) -> Iterator[str]:
    """Write the table of the faults in Markdown: how often each is found, and still decided on."""
    yield "| fault | checks | found | not trusted | ship | stop | seconds |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for name, fault in FAULTS.items():
        own = [run for run in runs if run.kind == name]
        if not own:
            continue
        found = sum(run.is_found for run in own)
        counts = (
            sum(word in run.decisions for run in own)
            for word in ("do_not_trust", "ship", "do_not_ship")
        )
        cells = (
            name,
            ", ".join(f"`{check}`" for check in fault.checks),
            f"{found} of {len(own)}" if found == len(own) else f"**{found} of {len(own)}**",
            *counts,
            f"{np.median([run.seconds for run in own]):.1f}",
        )
        yield f"| {' | '.join(map(str, cells))} |"


def _share(count: int, logs: int, most: float) -> str:
    """Write a share in percent, bold where it is above the most that may be."""
    text = f"{100 * count / logs:.1f} %"
    return f"**{text}**" if count > most * logs else text


def main() -> None:
    """Carry out the runs that are not kept yet, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.healthy_logs")
    parser.add_argument("--runs", type=int, default=1_000, help="of each kind")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="users of a log")
    parser.add_argument("--lifts", type=float, nargs="+", default=LIFTS)
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS])
    parser.add_argument("--faulty", type=int, default=40, help="logs with each fault")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a file to which each run is added")
    options = parser.parse_args()
    wanted = plans(options.kinds, options.runs, options.sizes, options.lifts, options.seed)
    wanted += [Plan(name, i, options.seed) for i in range(options.faulty) for name in FAULTS]
    kept = read_runs(options.keep)
    todo = [plan for plan in wanted if plan not in kept]
    done = dict(zip(todo, carry_out(todo, options.processes, options.keep), strict=True))
    runs = [(kept | done)[plan] for plan in wanted]
    healthy = [run for run in runs if run.kind in KINDS]
    for table in (write_table(healthy), write_faults(runs)):
        sys.stdout.write("\n".join(table) + "\n\n")


if __name__ == "__main__":
    main()
