"""Hold results as frozen records; this exports the parts of an analysis."""

from abeval.results.analysis import Account as Account
from abeval.results.analysis import ExperimentInfo as ExperimentInfo
from abeval.results.analysis import LeftOut as LeftOut
from abeval.results.analysis import MetricInfo as MetricInfo
from abeval.results.analysis import Ramp as Ramp
from abeval.results.analysis import VariantInfo as VariantInfo
from abeval.results.effects import Adjustment as Adjustment
from abeval.results.effects import Boundary as Boundary
from abeval.results.effects import FamilyInterval as FamilyInterval
from abeval.results.effects import RangeRow as RangeRow
from abeval.results.effects import Row as Row
from abeval.results.effects import SegmentContrast as SegmentContrast
from abeval.results.effects import SegmentTest as SegmentTest
from abeval.results.effects import SliceRow as SliceRow
from abeval.results.effects import Status as Status
from abeval.results.trust import AAMetric as AAMetric
from abeval.results.trust import Balance as Balance
from abeval.results.trust import Check as Check
from abeval.results.trust import CheckStatus as CheckStatus
from abeval.results.trust import Decision as Decision
from abeval.results.trust import Influence as Influence
from abeval.results.trust import Verdict as Verdict
