"""The assignment of other platforms, each as a rule of draws and ranges.

Each class has the settings that its platform shows, and says what is hashed and what ranges are.
The experiment file names one under `[assignment.scheme]`; `abeval audit` computes variants by it.
Numbers that the platforms published for their own SDKs are in `tests/assignment/`.

| module | what is in it |
|---|---|
| `scheme` | what every platform's class is, and ranges from weights |
| `fnv` | GrowthBook |
| `md5` | Eppo, Flagsmith |
| `murmur3` | Optimizely, Split, Unleash |
| `sha1` | LaunchDarkly, PlanOut, PostHog |
| `sha256` | Firebase, Statsig |
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

AnyScheme = Annotated[
    Eppo
    | Firebase
    | Flagsmith
    | GrowthBook
    | LaunchDarkly
    | Optimizely
    | PlanOut
    | PostHog
    | Split
    | Statsig
    | Unleash,
    Field(discriminator="platform"),
]
