"""The Python API: an experiment from a file or from Python, and all that can be asked of it."""

from abeval.api.entry import analyze, analyze_sums, define, load
from abeval.api.loaded import LoadedExperiment

__all__ = ["LoadedExperiment", "analyze", "analyze_sums", "define", "load"]
