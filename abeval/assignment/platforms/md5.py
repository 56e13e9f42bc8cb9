"""Platforms that draw by MD5: Eppo, Flagsmith."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from abeval.assignment.draws import FLAGSMITH_STEPS, Draw, Range, Rule, Stage, shares
from abeval.assignment.platforms import IN, Scheme, Share, Weights


class Eppo(Scheme):
    """Eppo: md5 over salt and id; traffic and split are shards of their own.

    Attributes:
        salt: Salt of the split.
        traffic_salt: Salt of the traffic allocation, if there is one.
        traffic: Share of units in the experiment.
        shards: Total number of shards.
        flag: The flag of the old randomisation, which hashes `exposure-ID-FLAG` and
            `assignment-ID-FLAG`, instead of the salts.
    """

    platform: Literal["eppo"]
    salt: str = ""
    traffic_salt: str | None = None
    traffic: Share = 1.0
    shards: int = Field(default=10_000, ge=1)
    flag: str | None = None

    def rule(self, weights: Weights) -> Rule:
        """Traffic, then the split."""
        stages = [Stage(self._draw("assignment", self.salt), shares(weights, self.shards))]
        if self.flag is not None or self.traffic_salt is not None:
            draw = self._draw("exposure", self.traffic_salt or "")
            stages.insert(0, Stage(draw, (Range(IN, 0, self.traffic * self.shards),)))
        return Rule(tuple(stages))

    def _draw(self, purpose: str, salt: str) -> Draw:
        if self.flag is not None:
            return Draw("md5_32", f"{purpose}-", f"-{self.flag}", modulus=self.shards)
        return Draw("md5_32", f"{salt}-", modulus=self.shards)


class Flagsmith(Scheme):
    """Flagsmith: md5 over the id of the feature state and that of the identity, in per cent.

    Attributes:
        feature: Id of the feature state.
    """

    platform: Literal["flagsmith"]
    feature: str

    def rule(self, weights: Weights) -> Rule:
        """The split of multivariate options."""
        draw = flagsmith_draw(self.feature)._replace(divisor=None)
        return Rule((Stage(draw, shares(weights, FLAGSMITH_STEPS - 1)),))


def flagsmith_draw(feature: str | int) -> Draw:
    """Flagsmith's percentage, as a share from 0 to 1.

    >>> round(flagsmith_draw(12).number(93) * 100, 6)
    27.655531
    """
    return Draw("flagsmith", f"{feature},", divisor=float(FLAGSMITH_STEPS - 1))
