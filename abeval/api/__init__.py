"""Open the Python API: an experiment from a file or from Python, and all it can be asked."""

from abeval.api.entry import analyze, analyze_sums, define, load
from abeval.api.loaded import LoadedExperiment

__all__ = ["LoadedExperiment", "analyze", "analyze_sums", "define", "load"]
