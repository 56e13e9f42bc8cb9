"""All studies, cut into pieces that run in parallel processes."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import groupby
from typing import NamedTuple

from benchmarks.calibration import families, moments, over_time, resampled, units
from benchmarks.calibration.logs import Split
from benchmarks.calibration.outcome import Outcome, Rate

EVEN, UNEVEN = Split(2500, 2500), Split(27_000, 3000)
THOUSANDS, SMALL = Split(1000, 1000), Split(1800, 200)
PIECE = 2500
"""Repetitions of one piece. Its seed depends on its index, not on the process that runs it."""


class Study(NamedTuple):
    """A function of seed and repetitions, and a factor for the number of repetitions."""

    run: Callable[[int, int], list[Outcome]]
    times: int = 1


STUDIES: Sequence[Study] = (
    Study(partial(moments.effects, split=EVEN), 4),
    Study(partial(moments.effects, split=UNEVEN)),
    Study(partial(moments.effects, split=SMALL)),
    Study(partial(moments.margins, split=EVEN), 4),
    Study(partial(moments.margins, split=UNEVEN)),
    Study(partial(moments.margins, split=SMALL)),
    Study(partial(units.counts, split=Split(40, 41))),
    Study(partial(units.values, split=THOUSANDS)),
    Study(partial(units.values, split=SMALL)),
    Study(partial(units.clustered_quantiles, split=THOUSANDS)),
    Study(partial(units.clustered_quantiles, split=Split(900, 100))),
    Study(partial(resampled.buckets, split=Split(2000, 2000))),
    Study(partial(resampled.buckets, split=Split(3600, 400))),
    Study(partial(resampled.replays, share=0.5)),
    Study(partial(resampled.replays, share=0.1)),
    Study(partial(resampled.catalogues, split=Split(500, 500))),
    Study(partial(resampled.catalogues, split=Split(900, 100))),
    Study(partial(over_time.always_valid, split=SMALL, looks=28)),
    Study(partial(over_time.always_valid, split=Split(300, 300), looks=1000)),
    Study(partial(over_time.planned_looks, split=THOUSANDS)),
    Study(partial(over_time.planned_looks, split=SMALL)),
    Study(partial(over_time.mismatch, looks=28)),
    Study(partial(over_time.mismatch, looks=1000)),
    Study(partial(over_time.windows, split=THOUSANDS)),
    Study(partial(over_time.windows, split=Split(900, 100))),
    Study(partial(families.segments, split=EVEN)),
    Study(partial(families.segments, split=SMALL)),
    Study(families.families),
    Study(partial(families.many_to_one, split=EVEN)),
    Study(families.tables),
    Study(families.exact_split, 4),
    Study(families.small_segments),
    Study(families.ramped_segments),
)


def calibrate(
    repetitions: int = 10_000, seed: int = 0, processes: int | None = None
) -> list[Outcome]:
    """Run every study.

    Args:
        repetitions: Repetitions per study; fast studies run four times as many.
        seed: Seed of all studies; results do not depend on the number of processes.
        processes: Worker processes; all cores by default, 0 for none.

    Returns:
        One outcome per test and kind of data, in the order of `STUDIES`.
    """
    pieces = [
        (index, 1000 * seed + piece, size)
        for index, study in enumerate(STUDIES)
        for piece, size in enumerate(_sizes(repetitions * study.times))
    ]
    if processes == 0:
        results = [_run_piece(piece) for piece in pieces]
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes or os.cpu_count(), mp_context=context) as workers:
            results = list(workers.map(_run_piece, pieces))
    by_piece = zip(pieces, results, strict=True)
    outcomes: list[Outcome] = []
    for _, group in groupby(by_piece, key=lambda pair: pair[0][0]):
        outcomes += [merge(parts) for parts in zip(*(result for _, result in group), strict=True)]
    return outcomes


def merge(parts: Sequence[Outcome]) -> Outcome:
    """Outcome of a study from those of its pieces."""
    return parts[0]._replace(
        false_positives=_merge_rates([part.false_positives for part in parts]),
        coverage=_merge_rates([part.coverage for part in parts]),
    )


def _merge_rates(rates: Sequence[Rate | None]) -> Rate | None:
    measured = [rate for rate in rates if rate is not None]
    if not measured:
        return None
    total = sum(rate.repetitions for rate in measured)
    value = sum(rate.value * rate.repetitions for rate in measured) / total
    return Rate(value, measured[0].se * (measured[0].repetitions / total) ** 0.5, total)


def _sizes(repetitions: int) -> list[int]:
    whole, rest = divmod(repetitions, PIECE)
    return [PIECE] * whole + ([rest] if rest else [])


def _run_piece(piece: tuple[int, int, int]) -> list[Outcome]:
    index, seed, size = piece
    return STUDIES[index].run(seed, size)
