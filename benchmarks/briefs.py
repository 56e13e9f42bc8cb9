"""Print the bytes of `--brief` in twelve worlds, and whether its decisions are those of the result.

`--write FOLDER` writes each brief as 01.json, 02.json, …, for a reader, and truth.txt beside them.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import abeval
from abeval.brief import brief_json
from abeval.report.next_step import action
from abeval.results import codes
from benchmarks import report_worlds as worlds

if TYPE_CHECKING:
    from abeval.results.analysis import Result


def draft() -> worlds.World:
    """The sample logs, with a question that nobody has answered."""
    return worlds.World(
        abeval.load(worlds.SAMPLE).replace(
            questions=["impressions: does the log hold all users of both variants?"]
        ),
        {},
    )


WORLDS = (
    worlds.sample,
    worlds.three_mixed,
    worlds.in_progress,
    worlds.without_effect,
    worlds.failed_trust,
    worlds.without_units,
    worlds.sixteen_units,
    worlds.hostile,
    worlds.many,
    worlds.scripts,
    worlds.one_metric,
    draft,
)


def main() -> None:
    """Write a table of Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.briefs")
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    folder = parser.parse_args().write
    lines, truth = [], []
    for number, world in enumerate(WORLDS, start=1):
        study = world().first()
        result = cast("Result", study.analysis)
        text = brief_json(result, study.outlook)
        told = {one["variant"]: one["decision"] for one in json.loads(text)["decisions"]}
        decided = {one.variant: codes.describe_code(one.decision) for one in result.verdicts}
        steps = {one.variant: action(result, study.outlook, one) for one in result.verdicts}
        own = "; ".join(
            f"{name}: {decision}, {steps[name].word}" for name, decision in decided.items()
        )
        decisions = ", ".join(decided.values())
        is_told = "yes" if told == {k: v.replace(" ", "_") for k, v in decided.items()} else "no"
        lines.append(f"| `{world.__name__}` | {len(text.encode()):,} | {decisions} | {is_told} |")
        truth.append(f"{number:02} {world.__name__} ({world.__doc__}) {own}")
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number:02}.json").write_text(text + "\n", encoding="utf-8")
    if folder is not None:
        (folder / "truth.txt").write_text("\n".join(truth) + "\n", encoding="utf-8")
    head = "| world | bytes | decisions of the result | told |\n|---|--:|---|---|\n"
    sys.stdout.write(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
