"""Trust checks from outside: declared in a program, or by an installed package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import abeval
from abeval.inference.compare import Analysis
from abeval.inference.trust import checks as trust_checks
from tests.logs.small import PERIOD, analyze, small_log


@pytest.fixture(autouse=True)
def no_added_checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave nothing that a test adds to the next one."""
    monkeypatch.setattr(trust_checks, "_added", {})
    trust_checks.load_installed_checks.cache_clear()
    yield
    trust_checks.load_installed_checks.cache_clear()


def add_outages(hours: float) -> None:
    """Add a check of hours of outages, which warns from 1 and fails from 3."""

    @abeval.add_check
    @abeval.TrustCheck(
        "outages",
        limits=(1.0, 3.0),
        calm="no outage",
        alarm="{hours:g} hours of outages in {days} days",
        reason="an hour is a tenth of the orders",
        remedy="leave their day out of [period]",
    )
    def outages(analysis: Analysis) -> abeval.RawCheck:
        days = len(analysis.aggregates.days)
        return abeval.RawCheck(hours, slots={"hours": hours, "days": days})


def add_test(name: str, p_value: float) -> None:
    """Add a test with a p-value."""
    check = abeval.TrustCheck(name, calm="alike", alarm="not alike", remedy="look")
    abeval.add_check(check(lambda _: abeval.RawCheck(p_value)))


def test_an_added_check_that_finds_something_is_told_everywhere(tmp_path: Path) -> None:
    add_outages(hours=5)
    result = analyze(small_log(), period=PERIOD)
    check = result.trust[-1]
    assert (check.name, check.status, check.value) == ("outages", "fail", 5)
    assert (check.warn_threshold, check.threshold) == (1, 3)
    assert check.message == "5 hours of outages in 3 days"
    assert {row.status for row in result.scorecard} == {"untrusted"}
    assert result.verdicts[0].decision == "do_not_trust"
    result.report(tmp_path / "page.html")
    texts = [str(result), (tmp_path / "page.html").read_text(encoding="utf-8")]
    assert all(check.message in text and check.remedy in text for text in texts)
    records = json.loads(result.to_json())["trust"]
    assert [record["message"] for record in records if record["name"] == "outages"] == [
        check.message
    ]


def test_an_added_check_that_passes_changes_no_row() -> None:
    before = analyze(small_log(), period=PERIOD)
    add_outages(hours=0)
    after = analyze(small_log(), period=PERIOD)
    assert (after.trust[-1].name, after.trust[-1].status) == ("outages", "pass")
    assert after.trust[-1].message == "no outage"
    assert after.scorecard == before.scorecard
    assert after.trust[:-1] == before.trust


def test_an_added_test_shares_the_budget_of_false_alarms() -> None:
    def thresholds() -> dict[str, float | None]:
        checks = analyze(small_log(), period=PERIOD).trust
        return {check.name: check.threshold for check in checks if check.is_test}

    for number in range(3):
        add_test(f"first{number}", 0.5)
    few = thresholds()
    add_test("second", 0.5)
    more = thresholds()
    families = len({name.partition(":")[0] for name in few} - {"srm"})
    assert more["second"] == more["first0"]
    assert more["first0"] == pytest.approx(few["first0"] * families / (families + 1), rel=1e-5)
    assert more["srm"] == few["srm"] == 0.001


def test_a_check_that_is_added_again_takes_the_place_of_the_first() -> None:
    add_outages(hours=5)
    add_outages(hours=2)
    checks = [check for check in analyze(small_log()).trust if check.name == "outages"]
    assert [check.status for check in checks] == ["warn"]


@pytest.mark.parametrize("name", ["srm", "srm:country", "influence", "pre_period:ctr"])
def test_the_name_of_a_check_of_abeval_is_taken(name: str) -> None:
    with pytest.raises(abeval.ExperimentError, match="choose another name"):
        add_test(name, 0.5)


def test_an_added_check_that_breaks_is_named() -> None:
    @abeval.add_check
    @abeval.TrustCheck("broken")
    def broken(analysis: Analysis) -> abeval.RawCheck:
        return abeval.RawCheck(1 / len(analysis.aggregates.days[:0]))

    with pytest.raises(abeval.ExperimentError, match="'broken' failed: ZeroDivisionError"):
        analyze(small_log())


def install(folder: Path, code: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a package with an entry point of `abeval.checks` on the path."""
    (folder / f"{value.partition(':')[0]}.py").write_text(code, encoding="utf-8")
    info = folder / "shop_checks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-checks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[abeval.checks]\nstock = {value}\n")
    monkeypatch.syspath_prepend(folder)


STOCK = """
import abeval

loads = []

@abeval.TrustCheck("stock", limits=(0.01,), calm="{share:.0%} sold out", remedy="order more")
def stock(analysis):
    loads.append(analysis.experiment.name)
    return abeval.RawCheck(0.02, slots={"share": 0.02})
"""


def test_a_check_of_an_installed_package_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, STOCK, "shop_checks_stock:stock", monkeypatch)
    check = analyze(small_log()).trust[-1]
    assert (check.name, check.status, check.message) == ("stock", "warn", "2% sold out")
    # The entry points were read once.
    (tmp_path / "shop_checks-1.0.dist-info" / "entry_points.txt").unlink()
    assert analyze(small_log()).trust[-1] == check


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("shop_checks_broken:stoc", "cannot be loaded: AttributeError"),
        ("shop_checks_other:loads", r"shop_checks_other:loads .* is a list"),
    ],
)
def test_an_entry_point_that_is_no_check_is_refused(
    value: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, STOCK, value, monkeypatch)
    with pytest.raises(abeval.ExperimentError, match=message):
        analyze(small_log())
