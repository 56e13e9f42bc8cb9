"""Numbers, times and names that are out of all bounds: one message and exit code 2, at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import abeval
from abeval.cli.main import exit_on_error
from abeval.errors import ExperimentError
from abeval.simulate import simulate
from tests.cli.test_broken_inputs import FILE, LOG, replaced, write
from tests.cli.test_cli import call
from tests.logs.small import small_log

Capture = pytest.CaptureFixture[str]

MODELS = "[models.m]\nscore = 'score'\n[models.n]\nscore = 'price'\n"
ARMS = "[variants.a]\nmodel = 'm'\n[variants.b]\nmodel = 'n'\n"
PERIOD = "[period]\nstart = 2024-01-01\nend = 2024-01-04\n"
WITH_MODELS = FILE.replace("[variants.a]\n[variants.b]\n", MODELS + ARMS)


ENTRIES = {
    "session gap": ("sessions.gap_minutes", "[sessions]\ngap_minutes = inf\n"),
    "long click": ("clicks.long_seconds", "[clicks]\nlong_seconds = inf\n"),
    "attribution": (
        "logs.clicks.attribution_hours",
        '[logs.clicks]\npath = "c.parquet"\nattribution_hours = inf\n',
    ),
    "threads": ("engine.threads", "[engine]\nthreads = 1000000000\n"),
    "weight of a metric": (
        "metrics[0].weight",
        "weight = 1e308\n[inference]\nfamily = 'weighted'\n",
    ),
    "range": ("metrics[0].margin", "role = 'guardrail'\nmargin = { within = [0, 1e308] }\n"),
    "margin": ("metrics[0].margin", "role = 'guardrail'\nmargin = { absolute = 1e308 }\n"),
    "planned units": (
        "inference.planned_units",
        f"[inference]\nlooks = 'always_valid'\nplanned_units = 1{'0' * 400}\n",
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_out_of_bounds_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path, added = ENTRIES[name]
    (tmp_path / "e.toml").write_text(FILE + added)
    assert call(monkeypatch, "analyze", tmp_path / "e.toml") == 2
    assert f"{path}: should be " in capsys.readouterr().err


def test_weights_and_alpha_are_numbers_that_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    text = FILE.replace("[variants.a]\n[variants.b]", "[variants]\na.weight=1e308\nb.weight=1e308")
    (tmp_path / "e.toml").write_text(text.replace('"user_id"', '"user_id"\nalpha = 1e-310'))
    assert call(monkeypatch, "analyze", tmp_path / "e.toml") == 2
    said = capsys.readouterr().err
    for path in ("alpha", "variants.a.weight", "variants.b.weight"):
        assert f"  {path}: should be " in said


LOOKS = f"looks = 'group_sequential'\nplanned_looks = {[(i + 1) / 200 for i in range(101)]}\n"


def test_more_looks_than_are_planned_at_once_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "e.toml").write_text(f"{FILE}[inference]\n{LOOKS}")
    assert call(monkeypatch, "analyze", tmp_path / "e.toml") == 2
    said = "inference.planned_looks: should have at most 100 items, not 101 (got "
    assert said in capsys.readouterr().err


OPTIONS = {
    "k of 2^63": ("replay", "--k", 2**63),
    "no cut-off": ("replay", "--k-by", "position:1=0"),
    "cut-off below zero": ("replay", "--k-by", "position:1=-3"),
    "huge cut-off": ("replay", "--k-by", f"position:1={10**30}"),
    "bins": ("replay", "--bins", 1_000_000_000),
    "curve": ("replay", "--curve", 100_000_000),
    "runs": ("aa", "--runs", 2_000_000_000),
    "no run": ("aa", "--runs", 0),
    "seed": ("aa", "--seed", -1),
    **{f"mde {x}": ("power", "--mde", x) for x in ("nan", "inf", "1e300", "1e-300", "0", "-1")},
    **{f"days {x}": ("power", "--days", x) for x in ("nan", "inf", "1e300", "1e-300", "0")},
    "power": ("power", "--power", "nan"),
    "ess": ("off-policy", "--from", "a", "--to", "b", "--min-ess", "nan"),
    "threads": ("analyze", "--threads", 1_000_000_000),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_out_of_bounds_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    write(tmp_path, LOG)
    (tmp_path / "e.toml").write_text(WITH_MODELS)
    command, *options = OPTIONS[name]
    assert call(monkeypatch, command, tmp_path / "e.toml", *options) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert options[-2].strip("-").replace("-", "_") in err.replace("-", "_")


@pytest.mark.parametrize(
    ("impressions", "seed"), [(10**18, 1), (10_000, -1)], ids=["too many", "negative seed"]
)
def test_a_simulation_out_of_bounds_is_refused(impressions: int, seed: int, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError):
        simulate(tmp_path / "logs", impressions, seed)
    assert list(tmp_path.iterdir()) == []


def test_the_api_has_the_same_bounds(tmp_path: Path) -> None:
    write(tmp_path, LOG)
    (tmp_path / "e.toml").write_text(WITH_MODELS)
    loaded = abeval.load(tmp_path / "e.toml")
    for work in (
        lambda: loaded.aa(runs=2_000_000_000),
        lambda: loaded.aa(seed=-1),
        lambda: loaded.power(days=float("nan")),
        lambda: loaded.power(mde=float("inf")),
        lambda: loaded.replay(bins=10**9),
        lambda: loaded.replay(curve=10**8),
        lambda: loaded.replay(k=[2**63]),
    ):
        with pytest.raises(ExperimentError, match=r"number|negative"):
            work()


TIMES = {
    "infinity": "timestamp 'infinity'",
    "year 200000": "timestamp '200000-01-01'",
    "before Christ": "timestamp '0044-03-15 (BC)'",
    "year 1": "timestamp '0001-01-01'",
}


@pytest.mark.whole
@pytest.mark.parametrize("time", TIMES.values(), ids=TIMES)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland"])
def test_one_time_that_is_none_is_told_and_does_not_stop_the_others(
    time: str, zone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    write(tmp_path, replaced(ts=f"case when impression_id = 7 then {time} else ts end"))
    text = FILE.replace(PERIOD, "").replace('"user_id"', f'"user_id"\ntimezone = "{zone}"')
    (tmp_path / "e.toml").write_text(text)
    out = tmp_path / "o.json"
    assert call(monkeypatch, "analyze", tmp_path / "e.toml", "--json", out) == 0
    result = json.loads(out.read_text())
    assert result["accounting"][0]["used"] == 2_400
    (note,) = [note for note in result["notes"] if "without a usable time" in note]
    assert "time: 1. They count in the totals" in note
    assert call(monkeypatch, "windows", tmp_path / "e.toml", "--json", out) == 0
    rows = json.loads(out.read_text())["windows"]
    assert {row["start"][:4] for row in rows if row["axis"] == "calendar"} == {"2024"}
    capsys.readouterr()


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_a_number_that_is_no_time_does_not_stop_the_others(
    unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    scale = {"s": 1, "ms": 1_000, "us": 1_000_000}[unit]
    whole = f"(1704067200 + impression_id * 100) * {scale}"
    write(tmp_path, replaced(ts=f"case when impression_id = 7 then {10**18} else {whole} end"))
    text = FILE.replace(PERIOD, "").replace('parquet"\n', f'parquet"\ntime_unit = "{unit}"\n')
    (tmp_path / "e.toml").write_text(text)
    assert call(monkeypatch, "windows", tmp_path / "e.toml") == 0
    capsys.readouterr()


def test_windows_over_thousands_of_days_are_refused_with_the_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    time = "case when impression_id = 7 then timestamp '1970-01-01' else ts end"
    write(tmp_path, replaced(ts=time))
    (tmp_path / "e.toml").write_text(FILE.replace(PERIOD, ""))
    assert call(monkeypatch, "windows", tmp_path / "e.toml") == 2
    said = capsys.readouterr().err
    assert "run from 1970-01-01 to 2024-01-03, 19,726 days" in said
    assert "[period]" in said


LONG = "x" * 300
ASSIGN = ("tools", "assign", "--salt", "s", "--variants")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("analyze", f"{{0}}/{LONG}.toml"), "cannot be read: File name too long"),
        (("analyze", "{0}/e.toml", "--json", f"{{0}}/{LONG}"), "File name too long"),
        (("analyze", "{0}/e.toml", "--report", f"{{0}}/{LONG}/x"), "cannot write"),
        (("analyze", "{0}/e.toml", "--csv", "{0}/loop"), "symbolic links"),
        (("analyze", "{0}/loop"), "symbolic links"),
        (("analyze", "/dev/zero"), "/dev/zero is a device"),
        ((*ASSIGN, "a=1,b=1", "/dev/zero"), "/dev/zero is a device"),
        ((*ASSIGN, "a=1,b=1", "{0}/loop"), "symbolic links"),
        ((*ASSIGN, "a=1e308,b=1e308", "{0}/e.toml"), "to 1e+12"),
    ],
)
def test_names_that_no_file_can_have_are_refused_before_the_work(
    arguments: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    (tmp_path / "e.toml").write_text(FILE)
    (tmp_path / "loop").symlink_to(tmp_path / "pool")
    (tmp_path / "pool").symlink_to(tmp_path / "loop")
    assert call(monkeypatch, *(text.format(tmp_path) for text in arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert "impressions" not in err


def fail(error: BaseException) -> None:
    raise error


def test_what_escapes_is_one_line_to_report_and_a_traceback_only_with_debug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(Path, "read_bytes", lambda path: fail(ZeroDivisionError("by\nzero")))
    assert call(monkeypatch, "analyze", tmp_path / "e.toml") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: abeval failed, which it should not: ZeroDivisionError: by zero")
    assert "(experiment/load.py, line " in err
    assert "please report this line" in err
    assert "Traceback" not in err
    assert call(monkeypatch, "analyze", tmp_path / "e.toml", "--debug") == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "error: abeval failed" in err


def test_memory_that_runs_out_is_said(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys, "argv", ["abeval"])
    with pytest.raises(SystemExit) as stop:
        exit_on_error(lambda: fail(MemoryError("unable to allocate 2.8 EiB")))
    assert stop.value.code == 1
    assert capsys.readouterr().err.startswith("error: memory ran out: unable to allocate 2.8 EiB")


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 (our own command)
        ["/bin/sh", "-c", command.replace("abeval", f"{sys.executable} -m abeval", 1)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{Path(abeval.__file__).parents[1]}"},
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_stdout_is_said(tmp_path: Path) -> None:
    done = shell("abeval tools metrics > /dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the system refused: No space left on device")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_reader_that_leaves_early_is_no_fault(tmp_path: Path) -> None:
    done = shell("abeval tools sql | head -n 1", tmp_path)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_json_may_go_to_stdout_and_to_a_file_behind_it(tmp_path: Path) -> None:
    assign = "abeval tools assign --salt s --variants a=1,b=1 --explain 7 --json /dev/stdout"
    piped, kept = shell(assign, tmp_path), shell(f"{assign} > kept", tmp_path)
    assert (piped.returncode, kept.returncode, kept.stdout) == (0, 0, "")
    assert (tmp_path / "kept").read_text() == piped.stdout
    text, _, data = piped.stdout.partition("{")
    assert text.startswith("unit        7\n")
    assert json.loads(f"{{{data}")["unit"] == "7"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_the_version_is_printed_by_the_command_and_the_module(tmp_path: Path) -> None:
    done = shell("abeval --version", tmp_path)
    assert (done.returncode, done.stdout) == (0, f"abeval {abeval.__version__}\n")


@pytest.mark.whole
def test_more_variants_or_metrics_than_are_analysed_at_once_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    variants = ", ".join(f"v{i} = {{}}" for i in range(300))
    metrics = ", ".join(f'{{name = "m{i}", value = "{i}"}}' for i in range(501))
    Path("e.toml").write_text(
        f'name = "t"\nunit = "user_id"\ncontrol = "v0"\nvariants = {{{variants}}}\n'
        f'metrics = [{metrics}]\nlogs.impressions.path = "log.parquet"\n'
    )
    assert call(monkeypatch, "analyze", "e.toml") == 2
    said = capsys.readouterr().err
    assert "variants: 300 variants, but at most 100 are analysed at once" in said
    assert "metrics: 501 metrics, but at most 500 are analysed at once: remove some, or" in said
    names = ["variant", *(f"c{i}" for i in range(600))]
    rows = [[group, *(str(i % 7 + row) for i in range(600))] for row, group in enumerate("abab")]
    Path("wide.csv").write_text("\n".join(",".join(row) for row in [names, *rows]))
    assert call(monkeypatch, "analyze", "wide.csv", "--variant", "variant") == 2
    assert "600 metrics, but at most 500 are analysed at once" in capsys.readouterr().err


@pytest.mark.parametrize("section", ["segments", "cuts"])
def test_more_segments_or_cuts_than_are_analysed_at_once_are_refused(section: str) -> None:
    entries = {"name": "t", "unit": "user_id", "control": "a", "variants": {"a": {}, "b": {}}}
    entries["logs"] = {"impressions": {"path": "log.parquet"}}
    many = {f"s{i}": "device" for i in range(101)}
    with pytest.raises(ExperimentError, match=f"{section}: 101 {section}, but at most 100 are"):
        abeval.define({**entries, "metrics": [{"name": "ctr"}], section: many})
    abeval.define({**entries, "metrics": [{"name": "ctr"}], section: dict([*many.items()][1:])})


def test_a_pipe_is_no_experiment_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "e.toml")
    for more in ((), ("--checks",), ("--report", tmp_path / "o.html")):
        named = ("analyze", tmp_path / "e.toml", "--json", tmp_path / "o.json", *more)
        assert call(monkeypatch, *named) == 2
        assert "e.toml is a device or a pipe" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' * 100_000])
def test_a_result_that_is_nested_too_deeply_is_no_result(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
) -> None:
    (tmp_path / "r.json").write_text(text)
    for arguments in (
        ("history", "add", tmp_path / "r.json", "--history", tmp_path / "h.parquet"),
        ("report", tmp_path / "r.json", "--output", tmp_path / "q.html"),
    ):
        assert call(monkeypatch, *arguments) == 2
        assert "r.json is not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("lacks", ["impressions", "clicks"])
def test_a_text_file_with_a_header_alone_has_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lacks: str
) -> None:
    monkeypatch.chdir(tmp_path)
    small_log().to_parquet("impressions.parquet")
    Path("impressions.csv").write_text("user_id,item_id,ts,variant,click\n")
    Path("clicks.csv").write_text("impression_id,ts\n")
    kind = "csv" if lacks == "impressions" else "parquet"
    clicks = 'logs.clicks.path = "clicks.csv"\n' if lacks == "clicks" else ""
    Path("e.toml").write_text(
        'name = "t"\nunit = "user_id"\ncontrol = "a"\nvariants = {a = {}, b = {}}\n'
        f'logs.impressions.path = "impressions.{kind}"\n{clicks}'
    )
    assert call(monkeypatch, "analyze", "e.toml") == 2
    assert f"error: the {lacks} have no rows" in capsys.readouterr().err


LONG = {
    "letters": "x" * 1_000_000,
    "words": "ab " * 333_000,
    "digits": "7" * 1_000_000,
    "addresses": "s3://key:word@b/a?x=1&" * 45_000,
    "quotes": "it's " * 200_000,
}
COLUMNS = ("user_id", "variant", "click", "country")


def table_with(place: str, text: str) -> str:
    """CSV of 400 users with a text in the header, or in a column of the fifth row."""
    rows = [[str(i), "ab"[i % 2], str(i % 3), "xy"[i % 4 // 2]] for i in range(400)]
    header = [text if place == "header" and name == "country" else name for name in COLUMNS]
    if place in COLUMNS:
        rows[5][COLUMNS.index(place)] = text
    return "\n".join(map(",".join, [header, *rows])) + "\n"


@pytest.mark.whole
@pytest.mark.parametrize(
    "kind",
    ["digits", *(pytest.param(k, marks=pytest.mark.slow) for k in LONG if k != "digits")],
)
def test_a_megabyte_anywhere_is_answered_within_a_second(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Of processor time, besides that of the same command without it; in some lines."""
    monkeypatch.chdir(tmp_path)
    text, plain = LONG[kind], Path("plain.csv")
    plain.write_text(table_with("", ""))
    named = ("--variant", "variant", "--unit", "user_id")

    def seconds(*arguments: object) -> float:
        begun = time.process_time()
        assert call(monkeypatch, *arguments) in (0, 2)
        taken = time.process_time() - begun
        said = capsys.readouterr()
        # Typer writes the value of an option that it does not know itself.
        assert len(said.out + said.err) < 20_000
        return taken

    usual = max(seconds("analyze", plain, *named, "--all", "--report", "a.html") for _ in range(2))
    for place in ("header", *COLUMNS):
        Path("t.csv").write_text(table_with(place, text))
        taken = seconds("analyze", "t.csv", *named, "--all", "--report", "a.html")
        assert taken < usual + 1, place
        assert seconds("init", "t.csv", "--output", f"{place}.toml") < usual + 1, place
    for option in ("--variant", "--unit", "--metric", "--control", "--weights", "--memory-limit"):
        assert seconds("analyze", plain, *named, option, text) < usual + 1, option
    assert seconds("analyze", text, *named) < usual + 1
    entries = {"name": '"t"', "unit": '"user_id"', "control": '"a"', "variants": "{a={}, b={}}"}
    entries |= {"metrics": '[{name = "m", value = "click"}]', "logs.units.path": '"plain.csv"'}
    for entry, value in {
        "name": "{}",
        "unit": "{}",
        "variants": "{{a = {{}}, {} = {{}}}}",
        "metrics": '[{{name = "m", value = {}}}]',
        "segments": "{{s = {}}}",
        "logs.units.path": "{}",
        "logs.units.query": "{}",
        "logs.units.where": "{}",
        "logs.units.columns.variant": "{}",
    }.items():
        lines = {**entries, entry: value.format(json.dumps(text))}
        Path("e.toml").write_text("\n".join(f"{k} = {v}" for k, v in lines.items()))
        assert seconds("analyze", "e.toml") < usual + 1, entry


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_a_closed_stdout_is_said(closed: str) -> None:
    command = f"{sys.executable} -m abeval tools metrics {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: standard output is closed") or "2>" in closed


@pytest.mark.parametrize("command", ["analyze", "init", "folder"])
def test_names_that_are_no_utf8_are_said(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    file = os.fsdecode(os.fsencode(tmp_path) + b"/l\xe9.csv")
    Path(file).write_text("user_id,variant,x\n1,a,1\n2,b,2\n")
    named = ["--unit", "user_id", "--variant", "variant"]
    arguments = {
        "analyze": ["analyze", file, *named],
        "init": ["init", file],
        "folder": ["analyze", tmp_path, *named],
    }[command]
    assert call(monkeypatch, *arguments) == 2
    said = capsys.readouterr().err
    assert "has bytes that are no UTF-8" in said
    assert "rename it" in said


def test_a_long_name_of_the_variant_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("user_id,variant,x\n1,a,1\n2,b,2\n")
    assert call(monkeypatch, "analyze", file, "--variant", "v" * 250) == 2
    assert "columns.variant: should have at most 200 characters" in capsys.readouterr().err
