"""How many examples hypothesis draws: few in the suite, many with `EXPLORE=1`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

MORE = 25


def drawn(examples: int) -> settings:
    """Settings of a test whose examples are slow: so many in the suite, 25 times as many beyond."""
    repeatable = settings.default.derandomize
    return settings(
        max_examples=examples if repeatable else MORE * examples,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
