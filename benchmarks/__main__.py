"""Measure error rates and times.

python -m benchmarks calibrate NAME
python -m benchmarks time NAME DIR
"""

import argparse

from benchmarks import runner, timing


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of both commands."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, module, run in (
        ("calibrate", runner, runner.calibrate),
        ("time", timing, timing.time_sides),
    ):
        command = commands.add_parser(name, help=(run.__doc__ or "").splitlines()[0])
        module.add_options(command)
        command.set_defaults(run=run)
    return parser


if __name__ == "__main__":
    options = build_parser().parse_args()
    options.run(options)
