"""Does `abeval init` draft files as people have them at first, and what does it ask?

Pairs of files with odd names, and single files of ten forms, each drafted, its questions answered
by what the generator knows, and analysed. A draft is right if its CTR is the generator's.
"""

import math
import re
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

from abeval.api import load
from abeval.drafts.run import Draft, draft_files
from abeval.errors import AbevalError
from benchmarks.runner import Record, Table
from tests.worlds.first_files import FORMS, Files, write_pair

MOST_QUESTIONS = 2
PAIRS = 40


class Outcome(NamedTuple):
    """What came of a draft.

    Attributes:
        is_right: Whether the CTR of every variant is the true one, once questions are answered.
        false: Sentences that are not so.
        guessed: Whether it decides something wrong while nobody has answered anything.
    """

    questions: int
    is_right: bool
    false: list[str]
    guessed: bool
    error: str
    text: str


def _list_false(draft: Draft, files: Files) -> list[str]:
    """List what the draft says that is not so: of columns, and that files share nothing."""
    false = [question for question in draft.questions if "gives no CTR" in question]
    for guess in draft.guesses:
        right = files.columns.get(guess.entry)
        if guess.column is not None and right is not None and guess.certainty != "not sure":
            is_so = guess.column.name in right
            false += [] if is_so else [f"{guess.entry}: {guess.column.name}, {guess.reason}"]
    return false


def _is_right(text: str, folder: Path, files: Files) -> bool:
    """Analyse a file, and tell whether its CTR is right."""
    path = folder / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    result = load(path).analyze()
    rows = [row for row in result.scorecard if row.metric == "ctr"]
    if not rows:
        return False
    control = result.experiment.control
    found = {row.variant: row.treatment for row in rows} | {control: rows[0].control}
    is_right = control == files.control and found.keys() == files.ctr.keys()
    return is_right and all(math.isclose(found[v] or 0, files.ctr[v], rel_tol=1e-9) for v in found)


def answer(files: Files, folder: Path) -> Outcome:
    """Draft files, answer the questions as the generator knows, and analyse them."""
    draft = draft_files(files.paths, folder)
    false, text = _list_false(draft, files), draft.text
    asked = len(draft.questions)
    entries = tomllib.loads(text)
    answered = re.sub(r"(?ms)^questions = \[.*?^\]\n", "", text)
    if any("control: is it" in question for question in draft.questions):
        proposed = f'control = "{entries["control"]}"'
        answered = answered.replace(proposed, f'control = "{files.control}"', 1)
    try:
        is_right = _is_right(answered, folder, files)
    except AbevalError as error:
        return Outcome(asked, False, false, False, str(error), text)
    return Outcome(asked, is_right, false, not asked and not is_right, "", text)


def measure_pair(seed: int, _repetitions: int, first: int) -> Record:
    """Draft a pair of files."""
    with tempfile.TemporaryDirectory() as folder:
        return _record(f"pair {seed + first}", write_pair(seed + first, Path(folder)), Path(folder))


def measure_form(name: str, _repetitions: int, first: int) -> Record:
    """Draft a file of one form."""
    with tempfile.TemporaryDirectory() as folder:
        return _record(name, FORMS[name](first, Path(folder)), Path(folder))


def _record(name: str, files: Files, folder: Path) -> Record:
    outcome = answer(files, folder)
    is_good = outcome.is_right and outcome.questions <= MOST_QUESTIONS
    return {
        "files": name,
        "right CTR with at most two answers": int(is_good),
        "questions": outcome.questions,
        "false sentences": len(outcome.false),
        "decided on a guess": int(outcome.guessed),
    }


TABLES = {
    "pairs": Table(measure_pair, range(PAIRS), repetitions=1),
    "forms": Table(measure_form, [*FORMS], repetitions=1),
}
