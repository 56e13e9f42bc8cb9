"""Run what a page of results says, and replace what it printed: `python -m benchmarks.results`.

Each page of this folder names its commands above the line `## Printed`. They run in their order;
what they write takes the place of all that stands below that line. Without names every page runs.
"""

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

from benchmarks.runner import PRINTED, replace_printed

FOLDER = Path(__file__).parent


def commands(page: str) -> list[str]:
    """List the commands of a page: indented lines above what was printed."""
    head = page.split(PRINTED)[0]
    pattern = r"^ {4}python -m (benchmarks(?: calibrate|\.calibration).*)$"
    return re.findall(pattern, head, re.MULTILINE)


def main() -> None:
    """Run the pages that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.results")
    parser.add_argument("pages", nargs="*", help="names of pages, such as skew; all by default")
    parser.add_argument("--list", action="store_true", help="print the commands and run none")
    options = parser.parse_args()
    pages = {path.stem: path for path in sorted(FOLDER.glob("*.md"))}
    if unknown := set(options.pages) - set(pages):
        parser.error(f"no page {', '.join(sorted(unknown))}; there are {', '.join(pages)}")
    for name in options.pages or pages:
        answers = []
        for command in commands(pages[name].read_text(encoding="utf-8")):
            sys.stdout.write(f"{name}: python -m {command}\n")
            if not options.list:
                words = [sys.executable, "-m", *shlex.split(command)]
                done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
                answers.append(done.stdout.strip())
        if answers:
            replace_printed(pages[name], "\n\n".join(answers))


if __name__ == "__main__":
    main()
