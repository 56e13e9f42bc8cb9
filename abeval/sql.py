"""Small pieces of SQL text, quoted in one place."""


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
