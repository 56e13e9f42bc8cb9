"""The relations of logs on an engine, by the paths of the logs in the experiment file.

`logs/opening.py` names them; engines take the names of logs in their messages from here.
"""

from abeval.experiment.sources import OUTCOME


def log_name(relation: str) -> str:
    """The path of a log in the experiment file below `logs`, or the name of a table.

    Example:
        >>> log_name("raw_clicks"), log_name("log_events_orders")
        ('clicks', 'events.orders')
    """
    if relation.startswith("table_"):
        return relation.removeprefix("table_")
    name = relation.removeprefix("raw_").removeprefix("log_")
    outcome = OUTCOME.replace(".", "_")
    return OUTCOME + name.removeprefix(outcome) if name.startswith(outcome) else name


def relation_of(prefix: str, log: str) -> str:
    """The relation of a log in some form, by the path of the log in the file.

    Example:
        >>> relation_of("raw", "events.orders")
        'raw_events_orders'
    """
    return f"{prefix}_{log.replace('.', '_')}"
