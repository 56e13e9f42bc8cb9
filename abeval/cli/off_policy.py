"""`abeval off-policy`: the value of a policy, from the log of another variant.

Calls `LoadedExperiment.off_policy` of `api/`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import JsonFile, Reads, Whole, print_tables, write_json

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment


def off_policy(
    loaded: "LoadedExperiment",
    source: Annotated[str, typer.Option("--from", help="The variant whose log is used.")],
    to: Annotated[
        str | None, typer.Option(help="The variant whose policy is evaluated.", metavar="VARIANT")
    ] = None,
    probability: Annotated[
        str | None,
        typer.Option(
            help="Or a column with the policy's probability of the logged item.", metavar="COLUMN"
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="Or a file with item_id, position and probability.", metavar="FILE"),
        Reads(),
    ] = None,
    reward: Annotated[
        str | None, typer.Option(help="Reward column, instead of the click.", metavar="COLUMN")
    ] = None,
    clip: Annotated[
        list[float] | None, typer.Option(help="Cap of clipped IPS; repeat for more. Default: 10.")
    ] = None,
    switch: Annotated[
        list[float] | None,
        typer.Option(help="Threshold of SwitchDR; repeat for more. Default: 10."),
    ] = None,
    shrink: Annotated[
        list[float] | None, typer.Option(help="λ of DRos; repeat for more. Default: 100.")
    ] = None,
    min_ess: Annotated[
        float, typer.Option(help="Effective sample size below which nothing is estimated.")
    ] = 100.0,
    whole: Whole = False,
    json_file: JsonFile = None,
) -> None:
    """Estimate the clicks or reward of a policy from the log of a variant with propensities."""
    from abeval.files import real
    from abeval.progress import steps

    with steps() as step:
        result = loaded.off_policy(
            source,
            to=to,
            probability=probability,
            # A path on the command line is relative to the working directory, not to the file.
            policy=None if policy is None else real(policy),
            reward=reward,
            clip=tuple(clip or (10.0,)),
            switch=tuple(switch or (10.0,)),
            shrink=tuple(shrink or (100.0,)),
            min_ess=min_ess,
            step=step,
        )
    write_json(json_file, result)
    print_tables(result, whole)
