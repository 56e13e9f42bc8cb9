"""Which models were replayed, and what each is made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Blend:
    """α of one model and 1 − α of another, as one more model."""

    model: str
    base: str
    alpha: float

    @property
    def name(self) -> str:
        """Such as `0.25·candidate + 0.75·baseline`."""
        return f"{self.alpha:g}·{self.model} + {1 - self.alpha:g}·{self.base}"


@dataclass(frozen=True)
class ReplayModel:
    """A model as the rows of a result name it.

    Attributes:
        name: Its name there.
        stage: Of the scores log, where that names stages, or `served`.
        blend: What it is mixed of, if it is a blend.
    """

    name: str
    stage: str | None = None
    blend: Blend | None = None


def replayed_models(
    names: Iterable[str], stages: Mapping[str, str], blends: Sequence[Blend]
) -> tuple[ReplayModel, ...]:
    """The models of a run, in its order.

    Example:
        >>> replayed_models(["a", "ranking/a"], {"ranking/a": "ranking"}, [])[1].stage
        'ranking'
    """
    mixed = {blend.name: blend for blend in blends}
    return tuple(ReplayModel(name, stages.get(name), mixed.get(name)) for name in names)
