"""The same examples on every run, without deadlines; `explore` is the profile for new ones."""

from hypothesis import HealthCheck, settings

settings.register_profile("explore", settings.get_profile("default"))
settings.register_profile(
    "repeatable",
    derandomize=True,
    # A busy machine is slow, which says nothing of the code.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")
