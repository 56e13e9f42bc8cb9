"""How many bytes `--brief` has in twelve worlds, and whether its decisions are the result's."""

import json
from typing import cast

import abeval
from abeval.brief import write_brief_json
from abeval.results import codes
from abeval.results.analysis import Result
from benchmarks.runner import Record, Table
from tests.worlds import pages as worlds


def draft() -> worlds.World:
    """The sample logs, with a question that nobody has answered."""
    question = "impressions: does the log hold all users of both variants?"
    return worlds.World(abeval.load(worlds.SAMPLE).replace(questions=[question]), {})


def measure_world(name: str, repetitions: int, seed: int) -> Record:
    """Compare the decisions of a brief with those of its result."""
    study = WORLDS[name]().first()
    result = cast("Result", study.analysis)
    text = write_brief_json(result, study.outlook)
    told = {row["variant"]: row["decision"] for row in json.loads(text)["decisions"]}
    words = {verdict.variant: codes.describe_code(verdict.decision) for verdict in result.verdicts}
    is_told = told == {variant: word.replace(" ", "_") for variant, word in words.items()}
    said = {
        "decisions of the result": ", ".join(words.values()),
        "told": "yes" if is_told else "no",
    }
    return {"world": f"`{name}`", "bytes": len(text.encode()), **said}


WORLDS = {
    world.__name__: world
    for world in (
        *(worlds.sample, worlds.three_mixed, worlds.in_progress, worlds.without_effect),
        *(worlds.failed_trust, worlds.without_units, worlds.sixteen_units, worlds.hostile),
        *(worlds.many, worlds.scripts, worlds.one_metric, draft),
    )
}
TABLES = {"briefs": Table(measure_world, tuple(WORLDS), repetitions=1)}
