"""Small pieces of SQL text, quoted in one place."""

from collections.abc import Mapping, Sequence


def quoted(name: str) -> str:
    """An identifier, whatever is in it.

    Example:
        >>> quoted('we"ird')
        '"we""ird"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string literal, whatever is in it.

    Example:
        >>> literal("it's")
        "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def by_value(subject: str, answers: Mapping[str, str]) -> str:
    """An expression that depends on the value of another; null for any other value.

    Args:
        subject: SQL of the value.
        answers: Value → the SQL of what it gives.

    Example:
        >>> by_value("u.variant", {"control": "a", "treatment": "b"})
        "case u.variant when 'control' then a when 'treatment' then b end"
    """
    cases = " ".join(f"when {literal(value)} then {sql}" for value, sql in answers.items())
    return f"case {subject} {cases} end"


def numbered(subject: str, values: Sequence[str]) -> str:
    """The number, from 0, of one of some values.

    Example:
        >>> numbered("variant", ["control", "treatment"])
        "case variant when 'control' then 0 when 'treatment' then 1 end"
    """
    return by_value(subject, {value: str(i) for i, value in enumerate(values)})
