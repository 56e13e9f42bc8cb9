"""Define the logs of an experiment file: sources and columns."""

import codecs
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, PrivateAttr, StringConstraints, model_validator

from abeval.bounds import MAX_ATTRIBUTION_HOURS
from abeval.experiment.sections import Moment, Name, Section, Text, TimeUnit, Word

# How long it may be, the system says.
_FileName = Annotated[str, StringConstraints(min_length=1)]

ROW_UNIT = "row"
OUTCOME = "events."
"""Prefix of the names of event logs."""
OWN_TABLE = "log"
"""Name of a log's own rows in its `query`."""


def _check_encoding(name: str) -> str | None:
    """Check the name of an encoding; return None for UTF-8."""
    try:
        codec = codecs.lookup(name)
        "a".encode(name)
    except LookupError as error:
        raise ValueError(f"is no encoding of text that Python knows (got {name!r})") from error
    # Files are read as UTF-8 anyhow.
    return None if codec.name in ("utf-8", "utf-8-sig", "ascii") else name


READING = ("table", "sheet", "format", "delimiter", "decimal", "encoding", "header")
"""Entries of a log that say how its files are read."""


class Span(NamedTuple):
    """Hold days in UTC: from `since` to before `until`."""

    since: date
    until: date


class LogSource(Section):
    """Where a log is: files, or a table of a database file or a caller's connection.

    Paths by variant say which variant the rows of their files have, in place of a column.
    """

    path: _FileName | list[_FileName] | Mapping[Name, _FileName | list[_FileName]] | None = None
    table: Name | None = None
    sheet: Name | None = None
    format: Literal["auto", "parquet", "csv", "json", "xlsx", "sqlite", "duckdb"] = "auto"
    delimiter: Annotated[str, Field(min_length=1, max_length=4)] | None = None
    decimal: Literal[".", ","] | None = None
    encoding: Annotated[Name, AfterValidator(_check_encoding)] | None = None
    header: bool | None = None
    columns: Mapping[str, Name] = Field(default_factory=dict)
    time_unit: TimeUnit | None = None
    ts_format: Name | None = None
    ts_zone: Name | None = None
    where: Text | None = None
    query: Text | None = None
    _span: Span | None = PrivateAttr(None)

    @property
    def span(self) -> Span | None:
        """Return the days whose rows are enough; rows of others may be left out."""
        return self._span

    def limit_to(self, span: Span | None) -> Self:
        """Return a copy of which the rows of these days are enough."""
        source = self.model_copy()
        source._span = span
        return source

    @property
    def paths(self) -> list[str]:
        """List the globs, files and folders; empty if the log is a table."""
        return [path for paths in self.paths_by_variant.values() for path in paths]

    @property
    def paths_by_variant(self) -> Mapping[str | None, list[str]]:
        """Return the paths of each variant; those of None if a column says the variant."""
        paths = self.path if isinstance(self.path, Mapping) else {None: self.path or []}
        return {name: [path] if isinstance(path, str) else path for name, path in paths.items()}

    def map_unit(self, unit: str) -> Self:
        """Return a copy with this column as the unit, unless the file maps another."""
        if unit == ROW_UNIT:
            return self
        return self.model_copy(update={"columns": {"unit_id": unit, **self.columns}})


class ImpressionLog(LogSource):
    """One row per impression."""

    dwell_unit: Literal["s", "ms"] = "s"
    dwell_without_click: Literal["zero", "keep"] = "zero"
    first_position: Literal[0, 1] = 1


class Covariate(Section):
    """A value of a unit that was measured before the experiment."""

    value: Name
    resolution: Annotated[float, Field(gt=0, le=1)] = 1e-6


class UnitLog(LogSource):
    """One row per unit: its variant, outcomes and what was known of it before.

    Beside a log of impressions the variant is that of the log, and `segments` are expressions of
    the row.
    """

    covariates: list[Name | Covariate] = Field(default_factory=list)
    segments: Mapping[Word, Text] = Field(default_factory=dict)


_JoinColumn = Literal["unit_id", "impression_id", "request_id", "item_id", "position"]


class ClickLog(LogSource):
    """One row per click."""

    dwell_unit: Literal["s", "ms"] = "s"
    join: Annotated[list[_JoinColumn], Field(min_length=1, max_length=3)] | None = None
    attribution_hours: Annotated[float, Field(gt=0, le=MAX_ATTRIBUTION_HOURS)] = 24.0


class ItemLog(LogSource):
    """One row per item of the catalogue."""


class ExposureLog(LogSource):
    """One row per unit that entered the experiment."""


class EventLog(LogSource):
    """One row per event of a unit outside the impressions, such as an order.

    Each row has a time of its own. `until` is the moment up to which the log is complete; by
    default its last row.
    """

    until: Moment | None = None


class SumLog(LogSource):
    """Sums or counts by variant, in place of logs.

    A warehouse or a dashboard may give nothing else.
    """


class ScoreLog(LogSource):
    """One row per model, request and item: the item's score or rank, for replays."""


class TrainingLog(LogSource):
    """The rows of a model's training data, for the agreement of offline and online."""


class Logs(Section):
    """The experiment's logs: impressions with other logs, a table of units, or sums.

    `events` are outcome logs, by names of the user's.
    """

    impressions: ImpressionLog | None = None
    units: UnitLog | None = None
    sums: SumLog | None = None
    clicks: ClickLog | None = None
    items: ItemLog | None = None
    exposures: ExposureLog | None = None
    scores: ScoreLog | None = None
    training: TrainingLog | None = None
    events: Mapping[Word, EventLog] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_rows(self) -> Self:
        if self.impressions is None and self.units is None and self.sums is None:
            raise ValueError(
                "needs `impressions`, `units` for a table of one row a unit, or `sums` for one of "
                "sums or counts"
            )
        return self

    @property
    def logs_by_name(self) -> dict[str, LogSource]:
        """Return every log of the file by its path below `logs`."""
        logs = {name: log for name, log in self if name != "events" and log is not None}
        return logs | {OUTCOME + name: log for name, log in self.events.items()}

    @property
    def rows_name(self) -> Literal["impressions", "units"]:
        """Name the log that is analysed."""
        return "units" if self.impressions is None else "impressions"

    @property
    def rows(self) -> ImpressionLog:
        """Return the log that is analysed."""
        if self.impressions is not None or self.units is None:
            return self.impressions or ImpressionLog()
        # A table of units is read as a log with one impression per unit.
        return ImpressionLog(**self.units.model_dump(exclude={"covariates", "segments"}))


IDS = ("unit_id", "item_id", "impression_id", "request_id")
"""Columns whose values are ids."""

CANONICAL_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "impressions": (
        *("impression_id", "request_id", "unit_id", "item_id", "ts", "variant", "position"),
        *("score", "click", "dwell", "category", "propensity", "timeout", "fallback", "stale"),
    ),
    "units": ("unit_id", "variant"),
    "sums": ("variant",),
    "clicks": ("unit_id", "impression_id", "request_id", "item_id", "position", "ts", "dwell"),
    "items": ("item_id", "category", "embedding"),
    "exposures": ("unit_id", "ts", "variant"),
    "scores": ("model", "request_id", "item_id", "score", "rank"),
    "training": ("unit_id", "item_id", "ts", "click", "policy"),
}
"""abeval's names for the columns of each log."""


def list_canonical_columns(log: str) -> tuple[str, ...]:
    """Return the canonical columns of a log; empty for unknown names."""
    return ("unit_id", "ts") if log.startswith(OUTCOME) else CANONICAL_COLUMNS.get(log, ())
