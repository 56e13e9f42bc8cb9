"""Declare the parts of a study's page, built in or from other packages."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from abeval.errors import AbevalError
from abeval.plugins import load_entry_points

if TYPE_CHECKING:
    from abeval.report.figures import Block

_View = Literal["decision", "explore", "evidence", "metric"]
"""A tab of the page, or a tab of each metric in Explore."""

_GROUP = "abeval.parts"
"""The entry points of packages that declare parts."""


_BUILT_IN = (
    "analysis_page",
    "time_page",
    "spread_page",
    "agreement_page",
    "replay_page",
    "methods_part",
)
"""Modules of `abeval.report` that declare parts."""

_ORDER = (
    *("verdict", "metrics", "scorecard", "heat"),
    *("cumulative", "daily", "entry", "clock", "windows", "segments", "cuts"),
    *("dwell", "gauc", "catalog", "power", "replays", "definition"),
    *("causes", "offline", "trust", "design", "srm", "before", "stability", "quality", "aa"),
    "methods",
)
"""The built-in parts, from the top of the page to its end."""

Builder = TypeVar("Builder", bound="Callable[..., Iterable[Block]]")


@dataclass(frozen=True)
class Part:
    """Declare a part of the page, as a decorator of the function that builds it.

    The function gets the `Study`, or one result of it, and returns figures, tables and sentences;
    a part without blocks is not on the page. In the view `metric` they are `MetricBlocks`, each for
    a metric's panel.

    Args:
        id: Its address on the page.
        view: The tab that it is on.
        title: Its heading.
        short: Its name in the list of parts; the title if empty.
        lead: What to know before reading it; {level}, {alpha}, {alpha_share}, {unit} and {power}
            are those of the study.
        result: The field of the study that the function gets, if the study has it; all of it if
            empty.
        after: Id of the part before it, empty for none; those of abeval stand in `_ORDER`.
        gated: It shows effects, which a failed trust check hides.
        printed: It is on paper, though it is evidence.
        build: The function below the decorator.
        blocks: What it built, on a page.

    Raises:
        AbevalError: The id is no word, another function has it, or there is no such view.

    Example:
        >>> import abeval
        >>> @abeval.page_part("note", view="evidence", title="Note", after="quality")
        ... def build_note(study: abeval.Study) -> list[str]:
        ...     return [f"Written for {study.name}."]
        >>> del _PARTS["note"]
    """

    id: str
    _: KW_ONLY
    view: _View
    title: str = ""
    short: str = ""
    lead: str = ""
    result: str = ""
    after: str = "methods"
    gated: bool = False
    printed: bool = False
    build: "Callable[[Any], Iterable[Block]]" = tuple
    blocks: "tuple[Block, ...]" = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", self.id):
            raise AbevalError(
                f"{self.id!r} cannot be the id of a part", "use small letters and digits"
            )
        if self.view not in get_args(_View):
            what = f"the part {self.id!r} is on {self.view!r}, which is no view of the page"
            raise AbevalError(what, f"the views are {', '.join(get_args(_View))}")

    def __call__(self, build: Builder) -> Builder:
        """Give the part its function, and the page the part."""
        # The built-in parts have their ids first.
        if not _is_built_in(build):
            _load_built_in()
        # A cell of a notebook that runs again replaces its part.
        if (other := _PARTS.get(self.id)) is not None and _name(other.build) != _name(build):
            what = f"the page has a part {self.id!r} already: {_name(other.build)}"
            raise AbevalError(what, f"give {_name(build)} another id")
        _PARTS[self.id] = replace(self, short=self.short or self.title, build=build)
        return build


page_part = Part

_PARTS: dict[str, Part] = {}
"""Id → part, in the order in which they were declared."""


def _name(build: Callable[..., object]) -> str:
    return f"{build.__module__}.{build.__qualname__}"


def _is_built_in(build: Callable[..., object]) -> bool:
    return build.__module__.startswith("abeval.")


def _load_built_in() -> None:
    # Their modules import this one, so it imports them late.
    for module in _BUILT_IN:
        import_module(f"abeval.report.{module}")


def load_parts() -> list[Part]:
    """List all parts in their order, with those of installed packages.

    Raises:
        AbevalError: A package fails, or a part follows one that there is not.
    """
    _load_built_in()
    problem = "the parts of the page in {value} cannot be read: {error}"
    hint = f"mend or remove the package with {_GROUP}"
    # A module declares its parts when it is loaded.
    for _ in load_entry_points(_GROUP, lambda module: module, problem, hint):
        pass
    parts = [*_list_followers("")]
    parts += [part for id in _ORDER for part in (_PARTS[id], *_list_followers(id))]
    if lost := [part for part in _PARTS.values() if part not in parts]:
        what = f"the part {lost[0].id!r} follows {lost[0].after!r}, which is not on the page"
        raise AbevalError(what, f"there are {', '.join(part.id for part in parts)}")
    return parts


def _list_followers(after: str) -> Iterator[Part]:
    """Yield the parts of other packages that follow a part.

    Each part comes before the parts that follow it.
    """
    for part in _PARTS.values():
        if part.after == after and part.id not in _ORDER:
            yield part
            yield from _list_followers(part.id)
