"""The same examples on every run; `--hypothesis-profile=explore` looks for new ones."""

from hypothesis import settings

settings.register_profile("explore", settings.get_profile("default"))
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")
