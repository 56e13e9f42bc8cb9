"""What a result was computed from, and with: the experiment file, inputs, SQL and versions.

`study.py` fills it; the part `methods` of the page shows it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class InputFile:
    """A file that was read.

    Attributes:
        log: Which log it belongs to.
        path: Its path, as the experiment file's folder sees it.
        size: Bytes.
        sha256: Of its content, in hexadecimal.
        rows: That it has, None where that is not cheap to know: large text, databases.
    """

    log: str
    path: str
    size: int
    sha256: str
    rows: int | None = None


@dataclass(frozen=True)
class Provenance:
    """The experiment file, the inputs, the SQL that ran, and the versions that ran it.

    Attributes:
        experiment: The entries of the experiment file, with those that it includes, as TOML.
        inputs: Files that were read.
        queries: Name → SQL, as `abeval sql NAME` prints it.
        versions: Package → version.
    """

    experiment: str
    inputs: tuple[InputFile, ...]
    queries: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
