"""Small pieces of SQL text, with names and values quoted.

Every module that writes SQL of its own uses them, for names and values of logs and experiment
files.
"""

from collections.abc import Mapping, Sequence


def quoted(name: str) -> str:
    """A quoted identifier, whatever characters it has.

    Example:
        >>> quoted('we"ird')
        '"we""ird"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string literal, whatever characters it has.

    Example:
        >>> literal("it's")
        "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def by_value(subject: str, answers: Mapping[str, str]) -> str:
    """An expression that depends on the value of another; null for any other value.

    Args:
        subject: SQL of the value.
        answers: Value → the SQL of the result.

    Example:
        >>> by_value("u.variant", {"control": "a", "treatment": "b"})
        "case u.variant when 'control' then a when 'treatment' then b end"
    """
    cases = " ".join(f"when {literal(value)} then {sql}" for value, sql in answers.items())
    return f"case {subject} {cases} end"


def numbered(subject: str, values: Sequence[str]) -> str:
    """An expression with the place of a value in a list, from 0; null for any other value.

    Example:
        >>> numbered("variant", ["control", "treatment"])
        "case variant when 'control' then 0 when 'treatment' then 1 end"
    """
    return by_value(subject, {value: str(i) for i, value in enumerate(values)})
