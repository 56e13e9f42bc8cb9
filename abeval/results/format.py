"""Format numbers for people, with digits set by the interval.

All text is ASCII; `typeset_numbers` turns it into what a page shows.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from abeval.results.effects import Row

Interval = tuple[float | None, float | None, float | None]
"""A value and the ends of its interval."""

MISSING = "n/a"
UNBOUNDED = "unbounded"
RATE_UNITS = frozenset({"share", "rate"})
"""Units of fractions, shown in percent; their differences in percentage points."""

# Decimals that an end near zero may add, to show on which side it lies.
_MORE_PLACES = 2


class FormattedEffect(NamedTuple):
    """A formatted effect: equal decimals in all numbers, and a unit.

    Without an effect it is false, and its text says so.
    """

    point: str = MISSING
    low: str = ""
    high: str = ""
    unit: str = ""

    def __bool__(self) -> bool:
        """Tell whether there is an effect."""
        return self.point != MISSING

    @property
    def estimate(self) -> str:
        """Return the estimate with its unit."""
        return f"{self.point}{self.unit}"

    @property
    def interval(self) -> str:
        """Return both ends in brackets; empty without an effect."""
        if not self:
            return ""
        # Twice the same word would say no more.
        is_unbounded = self.low == self.high == UNBOUNDED
        return f"[{UNBOUNDED}]" if is_unbounded else f"[{self.low}, {self.high}]"

    @property
    def text(self) -> str:
        """Return the estimate and its interval."""
        return f"{self.estimate} {self.interval}".rstrip()

    @property
    def span(self) -> str:
        """Return the interval as text, from low to high."""
        return f"from {self.low} to {self.high}{self.unit}"


def format_lift(value: float | None, low: float | None, high: float | None) -> FormattedEffect:
    """Format a relative effect in percent; false without a value.

    Example:
        >>> format_lift(0.021345, 0.00912, 0.03357).text
        '+2.1% [+0.9%, +3.4%]'
        >>> format_lift(0.12, None, None).text
        '+12% [unbounded]'
    """
    return FormattedEffect() if value is None else _format_effect(value, low, high, 100.0, "%", "")


def format_difference(
    value: float | None, low: float | None, high: float | None, unit: str = ""
) -> FormattedEffect:
    """Format an absolute effect in the metric's unit; rates in points.

    Example:
        >>> format_difference(0.0423, -0.0112, 0.0958).text
        '+0.042 [-0.011, +0.096]'
        >>> format_difference(0.0061, 0.0032, 0.009, "share").text
        '+0.61 pp [+0.32, +0.90]'
    """
    if value is None:
        return FormattedEffect()
    if unit in RATE_UNITS:
        return _format_effect(value, low, high, 100.0, "", " pp")
    return _format_effect(value, low, high, 1.0, "", _format_unit(unit))


def choose_digits(values: Iterable[float | None], unit: str = "") -> int:
    """Return the significant digits, at least 3, that distinguish all values.

    Example:
        >>> choose_digits([0.4467, 0.4379], "share")
        3
        >>> choose_digits([0.1057, 0.1056, 0.112], "share")
        4
    """
    different = {value for value in values if value is not None}
    # A double has 15 significant digits.
    for enough in range(3, 16):
        if len({format_value(value, unit, enough) for value in different}) == len(different):
            break
    return enough


def format_pair(control: float | None, treatment: float | None, unit: str = "") -> tuple[str, str]:
    """Format two values with as many digits as distinguish them, at least 3.

    Example:
        >>> format_pair(0.4467, 0.4379, "share"), format_pair(21.9283, 21.9311, "s")
        (('44.7%', '43.8%'), ('21.928 s', '21.931 s'))
    """
    enough = choose_digits((control, treatment), unit)
    return format_value(control, unit, enough), format_value(treatment, unit, enough)


def format_value(value: float | None, unit: str = "", digits: int = 3) -> str:
    """Format a value to some significant digits, with its unit.

    Example:
        >>> format_value(0.04234), format_value(12345.6, "s"), format_value(None)
        ('0.0423', '12,346 s', 'n/a')
    """
    if value is None:
        return MISSING
    if unit in RATE_UNITS:
        return f"{_format_significant_digits(100.0 * value, digits)}%"
    return f"{_format_significant_digits(value, digits)}{_format_unit(unit)}"


def format_estimate(
    value: float | None, low: float | None, high: float | None, places: int = 0
) -> tuple[str, str]:
    """Format a value and its interval, with digits set by the interval.

    `places` is the least number of decimals, for example the number that a value next to it has.

    Example:
        >>> format_estimate(0.48461, 0.47322, 0.496), format_estimate(0.12345, None, None)
        (('0.485', '[0.473, 0.496]'), ('0.123', ''))
    """
    if value is None or low is None or high is None:
        return format_value(value), ""
    places = max(places, choose_interval_decimals(low, high))
    return f"{value:,.{places}f}", f"[{low:,.{places}f}, {high:,.{places}f}]"


def format_interval(ends: Interval, form: str) -> str:
    """Format a value and its interval in one form.

    Example:
        >>> format_interval((0.0316, 0.0211, 0.042), "+.4f")
        '+0.0316 [+0.0211, +0.0420]'
    """
    value, low, high = ends
    if value is None:
        return MISSING
    interval = "" if low is None or high is None else f" [{low:{form}}, {high:{form}}]"
    return f"{value:{form}}{interval}"


def choose_interval_decimals(low: float | None, high: float | None) -> int:
    """Return the decimals that an interval needs; 0 without one.

    Example:
        >>> choose_interval_decimals(0.47322, 0.496), choose_interval_decimals(None, None)
        (3, 0)
    """
    if low is None or high is None:
        return 0
    return min(choose_decimals((high - low) / 2), 15) if high > low else 3


def format_margin(size: float, relative: bool, unit: str = "") -> str:
    """Format a margin as the experiment file states it.

    Example:
        >>> format_margin(0.02, True), format_margin(0.005, False, "share")
        ('2%', '0.5 pp')
        >>> format_margin(1.5, False, "s")
        '1.5 s'
    """
    if relative:
        return f"{100.0 * size:.3g}%"
    return f"{100.0 * size:.3g} pp" if unit in RATE_UNITS else f"{size:.3g}{_format_unit(unit)}"


def format_range(low: float, high: float) -> str:
    """Format the range of a guardrail as the experiment file states it.

    Example:
        >>> format_range(0.9, 1.1)
        '[0.9, 1.1]'
    """
    return f"[{low:.6g}, {high:.6g}]"


def format_p_value(p: float | None) -> str:
    """Format a p-value to 3 decimals, never as a bare zero.

    Example:
        >>> format_p_value(0.03154), format_p_value(0.0002), format_p_value(None)
        ('0.032', '<0.001', 'n/a')
    """
    if p is None:
        return MISSING
    # A bare zero would claim certainty.
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def format_z_p_value(z: float, digits: int = 3) -> str:
    """Format the two-sided p-value of a z, or of a boundary of z.

    Example:
        >>> format_z_p_value(1.96), format_z_p_value(-7.0, 2)
        ('0.05', '2.6e-12')
    """
    # erfc keeps digits where 1 − Φ would cancel them.
    return f"{math.erfc(abs(z) / math.sqrt(2)):.{digits}g}"


def format_number(value: float | None, form: str) -> str:
    """Format a number; empty if there is none.

    Example:
        >>> format_number(0.12345, ".2g"), format_number(None, ".2g")
        ('0.12', '')
    """
    return "" if value is None else f"{value:{form}}"


def format_optional(value: float | None, write: Callable[[float], str]) -> str:
    """Format a number by a function; empty if there is none.

    Example:
        >>> format_optional(0.125, format_percent), format_optional(None, format_percent)
        ('12.5%', '')
    """
    return "" if value is None else write(value)


def format_count(number: int) -> str:
    """Format a count with thousands separators.

    Example:
        >>> format_count(20000000)
        '20,000,000'
    """
    return f"{number:,d}"


def format_percent(fraction: float) -> str:
    """Format a share in percent, to one decimal at most.

    Example:
        >>> format_percent(0.5), format_percent(0.333333)
        ('50%', '33.3%')
    """
    return f"{round(100.0 * fraction, 1):g}%"


def format_level(alpha: float) -> str:
    """Format the confidence level of an interval.

    Example:
        >>> format_level(0.05), format_level(0.001)
        ('95%', '99.9%')
    """
    return f"{100.0 * (1.0 - alpha):.6g}%"


def choose_decimals(half_width: float) -> int:
    """Return the decimals that show 2 significant digits of a half-width.

    Example:
        >>> [choose_decimals(half_width) for half_width in (1.22, 0.0535, 0.0996, 340.0)]
        [1, 3, 2, 0]
    """
    # Rounded to 2 digits first, so that 0.0996 counts as 0.10.
    return max(0, 1 - int(f"{half_width:.1e}".partition("e")[2]))


def join_items(items: Sequence[str]) -> str:
    """Join items as an enumeration in a sentence, empty for none.

    Example:
        >>> join_items(["a"]), join_items(["a", "b", "c"])
        ('a', 'a, b and c')
    """
    most, last = items[:-1], items[-1:]
    return f"{', '.join(most)} and {last[0]}" if most else "".join(last)


# Other names, and names that read as words of the sentence, get quotes.
_PLAIN = re.compile(r"[\w.:/+@-]+")
_WORDS = frozenset({"all", "better", "both", "draft", "nobody", "none", "other", "same", "worse"})


def capitalize_first(text: str) -> str:
    """Write the first letter as a capital, and leave all others.

    Example:
        >>> capitalize_first("look for a GPU")
        'Look for a GPU'
    """
    return text[:1].upper() + text[1:]


def quote_name(name: str) -> str:
    """Quote a name in a sentence if it could be read as other words.

    Example:
        >>> quote_name("ctr"), quote_name("same"), quote_name("click rate")
        ('ctr', "'same'", "'click rate'")
    """
    is_plain = _PLAIN.fullmatch(name) and name.lower() not in _WORDS
    return name if is_plain else f"'{name}'"


# A hyphen before a digit is a minus, unless it stands in a word or a date.
_MINUS = re.compile(r"(?<![\w.)\]-])-(?=\d)")
# Only commas before three digits separate thousands; others separate items.
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def typeset_numbers(text: str) -> str:
    """Replace hyphens and commas in numbers by true minus and thin spaces.

    Example:
        >>> typeset_numbers("-1,234.5 on 2022-04-24") == "\u22121\u202f234.5 on 2022-04-24"
        True
    """
    # Most texts have neither, and looking for a character is fast.
    if "-" in text:
        text = _MINUS.sub("\u2212", text)
    return _THOUSANDS.sub("\u202f", text) if "," in text else text


def _format_effect(
    value: float, low: float | None, high: float | None, scale: float, sign: str, unit: str
) -> FormattedEffect:
    scaled = value * scale, _scale(low, scale), _scale(high, scale)
    places = _choose_effect_decimals(*scaled)
    point, below, above = (_format_signed(number, places, sign) for number in scaled)
    # An end so near to zero that no digit shows keeps its sign; an estimate does not.
    zero = f"{0:.{places}f}{sign}"
    return FormattedEffect(zero if point[1:] == zero else point, below, above, unit)


def _choose_effect_decimals(value: float, low: float | None, high: float | None) -> int:
    """Count decimals by the half-width of an effect's interval.

    If one end is missing, the distance of the other end from the value counts. If both are missing,
    the value itself counts.
    """
    if low is not None and high is not None:
        width = (high - low) / 2
    else:
        width = max((abs(value - end) for end in (low, high) if end is not None), default=0.0)
    # An interval of width 0 has no digits: use the value's.
    width = width or abs(value)
    places = min(choose_decimals(width), 15) if width > 0 else 1
    # An end beside zero is on one side of it: as many decimals as show on which.
    ends = [abs(end) for end in (low, high) if end]
    for more in range(places, places + _MORE_PLACES + 1):
        if all(end >= 0.5 * 10.0**-more for end in ends):
            return more
    return places


def _scale(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _format_signed(value: float | None, places: int, sign: str) -> str:
    if value is None:
        return UNBOUNDED
    # An exact zero is neither a gain nor a loss, so it has no sign.
    return f"{value:+,.{places}f}{sign}" if value else f"{0:.{places}f}{sign}"


def _format_significant_digits(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    # The exponent after rounding: 9.996 has that of 10.0.
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    # Zeros after the point would hide the digits.
    if exponent < -6:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def _format_unit(unit: str) -> str:
    return f" {unit}" if unit else ""


def format_row_effect(row: Row, unit: str) -> FormattedEffect:
    """Format a row's effect: its lift, or its difference if unbounded."""
    relative = format_lift(row.lift, row.lift_low, row.lift_high)
    if relative and None not in (row.lift_low, row.lift_high):
        return relative
    # An interval with both ends says more than a lift without a bound.
    absolute = format_difference(row.difference, row.difference_low, row.difference_high, unit)
    return absolute or relative


def format_plus_minus(lift: float | None) -> str:
    """Format a relative effect of either sign, a fraction; `n/a` where there is none.

    Example:
        >>> format_plus_minus(0.0953)
        '±9.5%'
    """
    # Through float, because `.2g` alone writes 120 as 1.2e+02.
    return MISSING if lift is None else f"±{float(f'{100 * lift:.2g}'):,.10g}%"


def clip(text: str, words: int) -> str:
    """Cut a text to so many words, at the end of a clause or item if there is one.

    Example:
        >>> clip("3 of 4 users, on all days, come twice", 6), clip("one two three", 2)
        ('3 of 4 users …', 'one two …')
    """
    parts = text.split()
    if len(parts) <= words:
        return text
    cut = " ".join(parts[:words])
    ends = list(re.finditer(r"; |: | \(|, | and ", cut))
    whole = [e for e in ends if cut.count("(", 0, e.start()) == cut.count(")", 0, e.start())]
    if not whole or whole[-1].start() <= len(cut) / 2:
        return f"{cut.rstrip(',;:')} …"
    is_clause = whole[-1][0] in ("; ", ": ", " (")
    return cut[: whole[-1].start()] + " …" * (not is_clause)
