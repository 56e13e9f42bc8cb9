"""Name the argument of a call that has the wrong type."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar, Unpack, get_args, get_origin, is_typeddict

from abeval.errors import ExperimentError, translate_message

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def explain_types(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function name the argument of the wrong type when it fails.

    Arguments are checked only after a failure: what works need not fit its annotation.

    Example:
        >>> @explain_types
        ... def double(number: int) -> int:
        ...     return number.bit_length() * 2
        >>> double("many")
        Traceback (most recent call last):
        abeval.errors.ExperimentError: number: should be a whole number (got 'many')
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (AttributeError, TypeError, ValueError) as error:
            given = [*_bind_arguments(function, args, kwargs)]
            # First what nothing could be made of, then what is only of a type that is close.
            for strict in (False, True):
                for name, value, annotation in given:
                    if problem := _describe_misfit(value, annotation, strict=strict):
                        raise ExperimentError(f"{name}: {problem}") from error
            raise

    return call


def explain_methods(kind: C) -> C:
    """Apply `explain_types` to the public methods and `__init__` of a class."""
    for name, member in [*vars(kind).items()]:
        if inspect.isfunction(member) and (name == "__init__" or name[0] != "_"):
            setattr(kind, name, explain_types(member))
    return kind


def _bind_arguments(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> Iterator[tuple[str, object, object]]:
    """Yield the name, value and annotation of each argument of a call."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError:
        signature = inspect.signature(function)
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        kind = signature.parameters[name].annotation
        kind = get_args(kind)[0] if get_origin(kind) is Unpack else kind
        # `**inputs: Unpack[...]` has an annotation for each of its keys.
        if is_typeddict(kind):
            annotations = kind.__annotations__
            yield from ((key, value[key], annotations[key]) for key in value if key in annotations)
        elif kind is not inspect.Parameter.empty:
            yield name, value, kind


def _describe_misfit(value: object, annotation: Any, *, strict: bool) -> str:  # noqa: ANN401 (any type)
    """Describe how a value does not fit its annotation; empty if it fits."""
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

    # A name that was imported for types alone cannot be looked up.
    with suppress(NameError, PydanticUserError):
        adapter = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
        try:
            adapter.validate_python(value, strict=strict)
        except ValidationError as error:
            problems = dict.fromkeys(translate_message(detail["msg"]) for detail in error.errors())
            value_text = repr(value) if len(repr(value)) <= 80 else type(value).__name__
            return f"{' or '.join(problems)} (got {value_text})"
    return ""
