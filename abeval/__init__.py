"""Analyse A/B tests of recommender, search and ads models.

Example:
    >>> import abeval
    >>> result = abeval.load("sample_logs/experiment.toml").analyze()
    >>> result["ctr"].status
    'better'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from abeval.version import __version__
from abeval.views import VIEWS

if TYPE_CHECKING:
    from abeval import stats
    from abeval.api import LoadedExperiment, analyze, analyze_sums, define, load
    from abeval.api.frames import Draft, analyze_log, draft
    from abeval.assignment.interleaving import Drafted, interleave
    from abeval.errors import AbevalError, ExperimentError, LogError, QueryError
    from abeval.experiment.added import add_metric, test_statistic
    from abeval.history.history import History
    from abeval.inference.trust.checks import add_check
    from abeval.inference.trust.finding import RawCheck, TrustCheck
    from abeval.offline.evaluate import Evaluation, JudgedColumns, evaluate, evaluate_log
    from abeval.report.parts import page_part
    from abeval.results.agreement import Agreement
    from abeval.results.analysis import CheckResult, Pairwise, Result
    from abeval.results.history import Added, HistoryReport
    from abeval.results.interleaving import InterleavingResult
    from abeval.results.off_policy import OffPolicyResult
    from abeval.results.power import Plans
    from abeval.results.replay import ReplayResult
    from abeval.results.study import Study, read_results
    from abeval.results.trust import AAResult, AuditResult
    from abeval.results.windows import TimeResult


__all__ = ["__version__", "stats"]
__all__ += ["LoadedExperiment", "analyze", "analyze_log", "analyze_sums", "define", "load"]
__all__ += ["add_metric", "test_statistic"]
__all__ += ["Draft", "Drafted", "draft", "interleave"]
__all__ += ["AbevalError", "ExperimentError", "LogError", "QueryError"]
__all__ += ["Evaluation", "History", "JudgedColumns", "evaluate", "evaluate_log"]
__all__ += ["Agreement", "CheckResult", "InterleavingResult", "Pairwise", "Plans", "Result"]
__all__ += ["AAResult", "AuditResult", "OffPolicyResult", "ReplayResult", "TimeResult"]
__all__ += ["Added", "HistoryReport", "Study", "page_part", "read_results"]
__all__ += ["RawCheck", "TrustCheck", "add_check"]

_NAMES = {
    "api": ("LoadedExperiment", "analyze", "analyze_sums", "define", "load"),
    "api.frames": ("Draft", "analyze_log", "draft"),
    "assignment.interleaving": ("Drafted", "interleave"),
    "errors": ("AbevalError", "ExperimentError", "LogError", "QueryError"),
    "experiment.added": ("add_metric", "test_statistic"),
    "history.history": ("History",),
    "inference.trust.checks": ("add_check",),
    "inference.trust.finding": ("RawCheck", "TrustCheck"),
    "offline.evaluate": ("Evaluation", "JudgedColumns", "evaluate", "evaluate_log"),
    "report.parts": ("page_part",),
    "results.agreement": ("Agreement",),
    "results.analysis": ("CheckResult", "Pairwise", "Result"),
    "results.history": ("Added", "HistoryReport"),
    "results.interleaving": ("InterleavingResult",),
    "results.off_policy": ("OffPolicyResult",),
    "results.power": ("Plans",),
    "results.replay": ("ReplayResult",),
    "results.study": ("Study", "read_results"),
    "results.trust": ("AAResult", "AuditResult"),
    "results.windows": ("TimeResult",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

VIEWS.update(
    text="abeval.report.terminal:as_text",
    summary="abeval.report:summary_html",
    figures="abeval.report.page:Figures",
    markdown="abeval.report.markdown:markdown",
    page="abeval.report:write_report",
    comparison="abeval.agreement.compare:compare",
)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    # Importing everything at once would make `abeval --help` slow.
    if name == "stats":
        return import_module("abeval.stats")
    if name in _HOME:
        return getattr(import_module(f"abeval.{_HOME[name]}"), name)
    raise AttributeError(f"module 'abeval' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
