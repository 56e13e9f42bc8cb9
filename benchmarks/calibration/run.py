"""Every study, cut into pieces that processes share."""

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
"""Repetitions of one piece; a piece's seed depends on its place, not on who runs it."""


class Study(NamedTuple):
    """A function of seed and repetitions, and how many times the asked repetitions it gets."""

    ask: Callable[[int, int], list[Outcome]]
    times: int = 1


STUDIES: Sequence[Study] = (
    Study(partial(moments.effects, split=EVEN), 4),
    Study(partial(moments.effects, split=UNEVEN)),
    Study(partial(moments.effects, split=SMALL)),
    Study(partial(moments.margins, split=EVEN), 4),
    Study(partial(moments.margins, split=UNEVEN)),
    Study(partial(moments.margins, split=SMALL)),
    Study(partial(units.counts, split=EVEN), 4),
    Study(partial(units.counts, split=Split(9000, 1000)), 4),
    Study(partial(units.counts, split=Split(40, 41), exact=True)),
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
    Study(families.preferences, 4),
    Study(families.credible, 4),
)


def calibrate(
    repetitions: int = 10_000, seed: int = 0, processes: int | None = None
) -> list[Outcome]:
    """Run every study.

    Args:
        repetitions: Per study; cheap ones take four times as many.
        seed: Of everything; the answer does not depend on the number of processes.
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
        found = [_piece(piece) for piece in pieces]
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes or os.cpu_count(), mp_context=context) as workers:
            found = list(workers.map(_piece, pieces))
    together = zip([index for index, _, _ in pieces], found, strict=True)
    outcomes: list[Outcome] = []
    for _, group in groupby(together, key=lambda pair: pair[0]):
        parts = [part for _, part in group]
        outcomes += [merge(same) for same in zip(*parts, strict=True)]
    return outcomes


def merge(parts: Sequence[Outcome]) -> Outcome:
    """One outcome from pieces of the same study."""
    return parts[0]._replace(
        false_positives=_together([part.false_positives for part in parts]),
        coverage=_together([part.coverage for part in parts]),
    )


def _together(rates: Sequence[Rate | None]) -> Rate | None:
    kept = [rate for rate in rates if rate is not None]
    if not kept:
        return None
    total = sum(rate.repetitions for rate in kept)
    value = sum(rate.value * rate.repetitions for rate in kept) / total
    return Rate(value, kept[0].se * (kept[0].repetitions / total) ** 0.5, total)


def _sizes(repetitions: int) -> list[int]:
    whole, rest = divmod(repetitions, PIECE)
    return [PIECE] * whole + ([rest] if rest else [])


def _piece(piece: tuple[int, int, int]) -> list[Outcome]:
    index, seed, size = piece
    return STUDIES[index].ask(seed, size)
