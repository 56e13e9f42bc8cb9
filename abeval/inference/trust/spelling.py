"""The check of variants that the log spells in another way than the experiment file.

Their rows are set aside as those of variants that are not compared; `checks.py` lists the check.
"""

from abeval.experiment.problems import arms_of, joined_line, meant_by
from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import Limits, Words, graded
from abeval.logs.accounting import other_variants
from abeval.results import Check
from abeval.results import format as fmt

NAME = "variant_spelling"


def spelling_checks(analysis: Analysis) -> list[Check]:
    """One check where rows name a variant in another spelling, none where no row does."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    meant = {
        name: (own, rows)
        for name, rows in other_variants(aggregates.facts).items()
        if (own := meant_by(name, experiment.variants)) is not None and rows
    }
    if not meant:
        return []
    log = experiment.logs.rows_name
    read = sum(one.rows for one in aggregates.accounts if one.log == log)
    lost = sum(rows for _, rows in meant.values())
    listed = fmt.listing([f"{name!r} ({rows:,})" for name, (_, rows) in meant.items()])
    message = (
        f"{lost:,} of {read:,} {log} set aside ({lost / read:.2%}), because their variant differs "
        f"from one of the file in capitals or spaces: {listed}"
    )
    joined = arms_of(experiment.variants)
    for name, (own, _) in meant.items():
        joined[own].append(name)
    lines = [joined_line(own, joined[own]) for own in dict.fromkeys(o for o, _ in meant.values())]
    words = Words(message, message, f"if they are the same variants, write {fmt.listing(lines)}")
    reason = "another spelling of a variant is hardly another variant"
    return [graded(NAME, lost / read, Limits(0.0, experiment.trust.rows_fail, reason), words)]
