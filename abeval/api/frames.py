"""Analyse frames or files without an experiment file.

A draft of the experiment file is written from these frames or files.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abeval.api.loaded import LoadedExperiment
from abeval.calls import explain_types
from abeval.drafts.run import Draft as DraftedFile
from abeval.drafts.run import draft_frames
from abeval.errors import ExperimentError
from abeval.experiment.load import parse_experiment

if TYPE_CHECKING:
    from abeval.results.analysis import Result


@dataclass(frozen=True)
class Draft(DraftedFile):
    """A drafted experiment file with the frames that it is of.

    Attributes:
        text: The file, with a comment on every guess.
        guesses: What each column seems to be, and how surely.
        questions: What a person has to say; while one is open, nothing is decided.
        frames: Log → its frame, where it is not a file.
    """

    frames: Mapping[str, object] = field(default_factory=dict)

    @explain_types
    def load(self, **entries: Any) -> LoadedExperiment:  # noqa: ANN401
        """Make the experiment of the file; entries replace those of the draft.

        Args:
            **entries: Top-level entries of an experiment file. Naming `control` or `metrics`
                answers the questions about them; `questions=[]` answers all.

        Raises:
            ExperimentError: The draft lacks what only a person knows, such as the variants.
        """
        drafted = tomllib.loads(self.text)
        answered = tuple(
            {"metrics": "metrics:", "control": "control:"}.get(key, "-") for key in entries
        )
        left = [q for q in drafted.get("questions", []) if not q.startswith(answered)]
        if "variants" not in drafted | entries and "sums" not in drafted["logs"]:
            why = next((q for q in left if q.startswith("variant:")), "which column names them?")
            raise ExperimentError("variants: missing", why)
        return LoadedExperiment(parse_experiment({**drafted, "questions": left, **entries}, "."))

    def analyze(self, **entries: Any) -> "Result":  # noqa: ANN401
        """Analyse the frames as the draft says.

        While a question is open, the result is a draft. The method takes the entries of `load`.

        Example:
            >>> import pandas as pd
            >>> rows = {"user": range(400), "group": ["old", "new"] * 200}
            >>> drafted = draft(pd.DataFrame({**rows, "revenue": [1, 2, 3, 5] * 100}))
            >>> drafted.questions, drafted.analyze()["revenue"].control
            ((), 2.0)
        """
        return self.load(**entries).analyze(logs=dict(self.frames))


@explain_types
def draft(
    frame: object,
    name: str = "experiment",
    *,
    clicks: object = None,
    items: object = None,
    exposures: object = None,
    unit: str = "",
    variant: str = "",
) -> Draft:
    """Draft an experiment file for a frame or a log.

    The guesses follow from the values and the names of the columns.

    Args:
        frame: Rows of impressions, of events, or of units: pandas, Polars, Arrow, a DuckDB
            relation, or the path of a file.
        name: The experiment's name.
        clicks: Rows of clicks, as `frame`; their keys are found by their values.
        items: Rows of items, as `frame`.
        exposures: Rows of units with their variant, as `frame`.
        unit: The column of the unit, where it need not be guessed.
        variant: The column of the variant, likewise.

    Raises:
        LogError: One cannot be read, lacks a column, or does not fit the impressions.

    Example:
        >>> import pandas as pd
        >>> users = pd.DataFrame({"user_id": range(100), "group": ["control", "new"] * 50})
        >>> [g.column.name for g in draft(users).guesses if g.entry in ("unit", "variant")]
        ['user_id', 'group']
    """
    others = {"clicks": clicks, "items": items, "exposures": exposures}
    logs = {"impressions": frame, **{key: log for key, log in others.items() if log is not None}}
    named = {key: column for key, column in (("unit", unit), ("variant", variant)) if column}
    drafted = draft_frames(logs, named, name)
    frames = dict[str, object]()
    for entry in drafted.list_logs():
        log = logs.get(entry, frame)
        if not isinstance(log, str | Path):
            frames[entry.removeprefix("events.")] = log
    return Draft(drafted.text, drafted.guesses, drafted.questions, frames)


def analyze_log(
    impressions: object,
    *,
    clicks: object = None,
    items: object = None,
    exposures: object = None,
    unit: str = "",
    variant: str = "",
    **entries: Any,  # noqa: ANN401
) -> "Result":
    """Analyse a log of impressions without an experiment file.

    The clicks are in the log or beside it. The call is `draft(…).analyze(…)`: `draft` shows the
    file that is used.

    Args:
        impressions: Rows of impressions: pandas, Polars, Arrow, a DuckDB relation, or a path.
        clicks: Rows of clicks, where the impressions have no column of them.
        items: Rows of items.
        exposures: Rows of units with their variant, where the impressions have no column of it.
        unit: The column of the unit; without it the coarsest ids that have one variant each.
        variant: The column of the variant; without it a likely one.
        **entries: Top-level entries of an experiment file, such as `control="old"`, `metrics`,
            `period`, `segments`; `questions=[]` says that what the draft asks is right.

    Returns:
        The result. While the draft has a question, it is a draft itself, and decides nothing.

    Raises:
        LogError: A log cannot be read, lacks a column, or does not fit the impressions.
        ExperimentError: An entry is none, or nothing says the variants.

    Example:
        >>> import pandas as pd
        >>> shown = pd.read_parquet("sample_logs/impressions")
        >>> clicked = pd.read_parquet("sample_logs/clicks.parquet")
        >>> result = analyze_log(shown, clicks=clicked, unit="user_id", variant="variant")
        >>> result["ctr"].status
        'better'
    """
    drafted = draft(
        impressions, clicks=clicks, items=items, exposures=exposures, unit=unit, variant=variant
    )
    return drafted.analyze(**entries)
