"""Offer the Python API: load or define an experiment, and ask it."""

from abeval.api.entry import analyze, analyze_sums, define, load
from abeval.api.frames import Draft, analyze_log, draft
from abeval.api.loaded import LoadedExperiment

__all__ = [
    "Draft",
    "LoadedExperiment",
    "analyze",
    "analyze_log",
    "analyze_sums",
    "define",
    "draft",
    "load",
]
