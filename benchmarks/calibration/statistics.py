"""Error rates and coverage of every test, in A/A and A/B experiments on data like those of logs.

False positives are counted at alpha .05 and intervals at 95 %. A test *holds* within three Monte
Carlo errors; bounds that are "at most" may lie below.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from benchmarks.calibration import families, moments, over_time, resampled, units
from benchmarks.calibration.outcome import Outcome, Rate
from benchmarks.runner import Record, Table
from tests.worlds.users import Split

EVEN, UNEVEN = Split(2500, 2500), Split(27_000, 3000)
THOUSANDS, SMALL = Split(1000, 1000), Split(1800, 200)
PIECE = 2500
"""Repetitions that share a seed."""


class Study(NamedTuple):
    """A function of seed and repetitions, and a factor for the number of repetitions."""

    run: Callable[[int, int], list[Outcome]]
    times: int = 1


def list_studies(run: Callable[..., list[Outcome]], *splits: Split) -> list[Study]:
    """List a study for each split of the units."""
    return [Study(partial(run, split=split)) for split in splits]


STUDIES: Sequence[Study] = (
    Study(partial(moments.effects, split=EVEN), 4),
    *list_studies(moments.effects, UNEVEN, SMALL),
    Study(partial(moments.margins, split=EVEN), 4),
    *list_studies(moments.margins, UNEVEN, SMALL),
    *list_studies(units.counts, Split(40, 41)),
    *list_studies(units.values, THOUSANDS, SMALL),
    *list_studies(units.clustered_quantiles, THOUSANDS, Split(900, 100)),
    *list_studies(resampled.buckets, Split(2000, 2000), Split(3600, 400)),
    *(Study(partial(resampled.replays, share=share)) for share in (0.5, 0.1)),
    *list_studies(resampled.catalogues, Split(500, 500), Split(900, 100)),
    Study(partial(over_time.always_valid, split=SMALL, looks=28)),
    Study(partial(over_time.always_valid, split=Split(300, 300), looks=1000)),
    *list_studies(over_time.planned_looks, THOUSANDS, SMALL),
    *(Study(partial(over_time.mismatch, looks=looks)) for looks in (28, 1000)),
    *list_studies(over_time.windows, THOUSANDS, Split(900, 100)),
    *list_studies(families.segments, EVEN, SMALL),
    Study(families.families),
    *list_studies(families.many_to_one, EVEN),
    Study(families.tables),
    Study(families.exact_split, 4),
    Study(families.small_segments),
    Study(families.ramped_segments),
)


def run_study(study: Study, repetitions: int, seed: int) -> list[Outcome]:
    """Run a study in pieces; fast ones run four times as many repetitions."""
    whole, rest = divmod(repetitions * study.times, PIECE)
    sizes = [PIECE] * whole + ([rest] if rest else [])
    pieces = [study.run(1000 * seed + piece, size) for piece, size in enumerate(sizes)]
    return [merge(parts) for parts in zip(*pieces, strict=True)]


def measure_study(study: Study, repetitions: int, seed: int) -> Iterator[Record]:
    """Run a study, and write a record of each test."""
    return (outcome.record() for outcome in run_study(study, repetitions, seed))


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


TABLES = {"tests": Table(measure_study, STUDIES, repetitions=10_000)}
