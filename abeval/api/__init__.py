"""Offer the Python API: load or define an experiment, and ask it."""

from abeval.api.entry import analyze, analyze_sums, define, load
from abeval.api.loaded import LoadedExperiment

__all__ = ["LoadedExperiment", "analyze", "analyze_sums", "define", "load"]
