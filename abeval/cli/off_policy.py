"""`abeval off-policy`: what a policy would have had, from the log of a variant."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import JsonFile, on_engine

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment
    from abeval.results.off_policy import OffPolicyResult, Support


def off_policy(
    loaded: "LoadedExperiment",
    source: Annotated[str, typer.Option("--from", help="The variant whose log is used.")],
    to: Annotated[
        str | None, typer.Option(help="The variant whose policy is evaluated.", metavar="VARIANT")
    ] = None,
    probability: Annotated[
        str | None,
        typer.Option(
            help="Or a column: the policy's probability of the logged item.", metavar="COLUMN"
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="Or a file of item_id, position, probability.", metavar="FILE"),
    ] = None,
    reward: Annotated[
        str | None, typer.Option(help="What is earned, instead of the click.", metavar="COLUMN")
    ] = None,
    clip: Annotated[
        list[float] | None, typer.Option(help="Cap of clipped IPS; again for more. 10.")
    ] = None,
    switch: Annotated[
        list[float] | None, typer.Option(help="Threshold of SwitchDR; again for more. 10.")
    ] = None,
    shrink: Annotated[
        list[float] | None, typer.Option(help="λ of DRos; again for more. 100.")
    ] = None,
    min_ess: Annotated[
        float, typer.Option(help="Effective sample size below which nothing is estimated.")
    ] = 100.0,
    json_file: JsonFile = None,
) -> None:
    """What a policy would have had on the traffic of a variant that logs its propensities."""
    from abeval.files import write_text
    from abeval.progress import steps

    with steps() as step:
        found = loaded.off_policy(
            source,
            to=to,
            probability=probability,
            # A path on the command line starts where the command runs, not at the file.
            policy=None if policy is None else policy.resolve(),
            reward=reward,
            clip=tuple(clip or (10.0,)),
            switch=tuple(switch or (10.0,)),
            shrink=tuple(shrink or (100.0,)),
            min_ess=min_ess,
            step=step,
        )
    if json_file is not None:
        write_text(json_file, found.to_json())
    _show(found)


def _show(found: "OffPolicyResult") -> None:
    typer.echo(f"{found.policy}, from the log of {found.source}\n")
    table = found.to_frame().drop(columns=["method", "message"])
    if found.realised is None:
        table = table.drop(columns="z")
    # A column without any number is of None, which `na_rep` does not know.
    numbers = table.columns.difference(["estimator", "reason"])
    table[numbers] = table[numbers].astype(float)
    table = table.assign(reason=table["reason"].fillna(""))
    typer.echo(table.to_string(index=False, na_rep="-", float_format=lambda x: f"{x:.6g}"))
    if found.realised is not None:
        real = found.realised
        typer.echo(f"\nrealised: {real.value:.6g} [{real.low:.6g}, {real.high:.6g}]")
    if found.support is not None:
        typer.echo(_support_line(found.support))
    said = dict.fromkeys(row.message for row in found.rows if row.message is not None)
    for note in (*found.notes, *said):
        typer.echo(note, err=True)


def _support_line(support: "Support") -> str:
    weight = f"mean weight {support.mean_weight:.4f} ± {support.mean_weight_se:.4f}"
    size = f"effective sample size {support.ess:,.0f} of {support.rows:,}"
    line = f"{size}; {weight}, largest {support.max_weight:.4g}"
    if support.unsupported is None:
        return line
    return f"{line}; {100 * support.unsupported:.3g} % of the policy never shown"


def register(app: typer.Typer) -> None:
    """Add the command to a command line.

    Example:
        >>> app = typer.Typer()
        >>> register(app)
        >>> [command.name for command in app.registered_commands]
        ['off-policy']
    """
    app.command("off-policy")(on_engine(off_policy))
