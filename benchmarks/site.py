"""The site of the documentation, with the sample's page and the schemas.

python -m benchmarks.site         # writes .site/html; needs `pip install -e ".[docs]"`
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import abeval
from abeval.experiment.model import Experiment
from abeval.results.analysis import build_schema

ROOT = Path(__file__).parents[1]
PAGES = ROOT / ".site/pages"
HTML = ROOT / ".site/html"
GUIDES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs", "notebooks")
QUIET = (
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/design.md",
    "docs/gallery.md",
    "queries/README.md",
)
"""Pages that search leaves out: nobody's question is answered there first."""


def build_site() -> Path:
    """Build the site; return its folder.

    Raises:
        subprocess.CalledProcessError: A link or an anchor leads nowhere.
    """
    shutil.rmtree(ROOT / ".site", ignore_errors=True)
    for name in (*GUIDES, "benchmarks/results", "queries/README.md"):
        source, target = ROOT / name, PAGES / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, target)
    shutil.copyfile(ROOT / "site/api.md", PAGES / "api.md")
    for page in (*(PAGES / name for name in QUIET), *PAGES.glob("benchmarks/results/*.md")):
        text = page.read_text(encoding="utf-8")
        page.write_text(f"---\nsearch:\n  exclude: true\n---\n\n{text}", encoding="utf-8")
    start = PAGES / "README.md"
    more = "[more pictures]"
    linked = start.read_text(encoding="utf-8").replace(more, f"[open it](sample.html), {more}")
    start.write_text(linked, encoding="utf-8")
    abeval.load(ROOT / "sample_logs/experiment.toml").study().report(PAGES / "sample.html")
    for name, schema in (
        ("experiment", Experiment.model_json_schema()),
        ("result", build_schema()),
    ):
        file = PAGES / f"{name}.schema.json"
        file.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603
    return HTML


if __name__ == "__main__":
    print(build_site())
