"""Simulate a small log of another design than an A/B test of users."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from abeval.bounds import check_seed
from abeval.simulate.interleaved import simulate_lists
from abeval.simulate.run import Small, write_small
from abeval.simulate.stores import simulate_stores
from abeval.simulate.turns import simulate_switchback

Design = Literal["clusters", "interleaving", "switchback"]

_DESIGNS: Mapping[Design, Callable[[int], Small]] = {
    "clusters": simulate_stores,
    "interleaving": simulate_lists,
    "switchback": simulate_switchback,
}


def simulate_design(design: Design, directory: Path | str, seed: int = 7) -> Mapping[str, float]:
    """Write the log of a clustered, interleaved or switchback design.

    Returns the true lifts.

    The folder gets `impressions.parquet`, `experiment.toml` and `truth.json`. An earlier simulation
    is replaced, unless its experiment file was edited. For shared lists, the lift is the lift that
    an A/B test would show.

    Raises:
        ExperimentError: The seed or the folder cannot be used.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for design in ("clusters", "interleaving", "switchback"):
    ...         lift = simulate_design(design, f"{folder}/{design}")
    ...         print({metric: round(value, 3) for metric, value in lift.items()})
    {'ctr': 0.2}
    {'clicks_per_list': 0.13}
    {'ctr': 0.1}
    """
    check_seed(seed)
    small = _DESIGNS[design](seed)
    write_small(Path(directory), small, seed)
    return small.lift
