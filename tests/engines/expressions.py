"""Row-level expressions over a table of what engines disagree about."""

from __future__ import annotations

NASTY = """
select * from (values
  (1, 0, 0.0e0, 'a', true, timestamp '2026-03-29 01:30:00'),
  (2, 1, -0.0e0, 'A b', false, timestamp '2026-03-29 03:00:00.5'),
  (3, -7, 'nan'::double, '', null, timestamp '1969-12-31 23:59:59.999'),
  (4, 7, 'inf'::double, ' 12 ', true, timestamp '2024-02-29 00:00:00'),
  (5, null, '-inf'::double, '2.7', false, null),
  (6, 9223372036854775807, 2.5e0, '1e3', true, timestamp '2026-12-31 23:59:59'),
  (7, -9223372036854775807, -2.5e0, '1_000', true, timestamp '2027-01-01 00:00:00'),
  (8, 3, 0.5e0, 'x_%', true, timestamp '2026-01-05 12:34:56.789'),
  (9, 2, 1.5e0, null, true, timestamp '2026-01-04 12:34:56'),
  (10, 10, 1e300, 'Größe', true, timestamp '2026-01-01 00:00:00'),
  (11, 11, 1e-7, 'naïve' || chr(160), true, timestamp '2026-06-30 00:00:00'),
  (12, 12, 0.1e0, 'tab' || chr(9), true, timestamp '2026-07-01 00:00:00'),
  (13, 13, 1234567.25e0, '2026-01-05', true, timestamp '2026-10-25 02:30:00'),
  (14, 14, 12345678.0e0, 'a,b,,c', true, timestamp '2026-10-25 02:30:00'),
  (15, 15, null, 'line' || chr(10) || 'two', true, timestamp '2026-10-25 02:30:00'),
  (16, 16, 1.005e0, '日本語 👍🏽', true, timestamp '2026-10-25 02:30:00'),
  (17, 17, 0.49999999999999994e0, 'back\\slash ''q'' ${x}', true, timestamp '2026-10-25 02:30:00'),
  (18, 18, 1000.0e0, 'true', true, timestamp '2026-10-25 02:30:00'),
  (19, 1024, 1024.0e0, 'NaN', true, timestamp '2026-10-25 02:30:00')
) as v (id, i, d, s, b, t)
"""

EXPRESSIONS = """
i | d | s | b | t | i * 2.5 | -i | d * 0.1 | d + i | i - d | i % 5 | d % 2 | i / 3 | i / 0 | d / 0
0 / d | d / d | 1 / d | 5 / i | i / nullif(i, 0) | 7 / 2 * 2 | i // 3 | try_cast(d as int)
cast(b as int) | cast(b as double) | cast(i as boolean) | cast(i as varchar) | cast(b as varchar)
cast(t as varchar) | cast(s as varchar) | cast(cast(t as date) as varchar)
cast(i * 1.5 as varchar) | round(d) | round(i) | round(i / 2) | floor(d) | ceil(d) | floor(i)
ceil(i / 2) | floor(i / 2) | abs(d) | abs(i) | sqrt(d) | cbrt(d) | exp(d) | ln(d) | log2(d)
log(2, d) | pow(d, 2) | pow(i, d) | ln(i) | floor(log2(i)) | sqrt(i) | greatest(d, 1)
least(d, 1) | greatest(i, d) | least(i, null) | coalesce(d, i, 0) | nullif(d, 0) | d > 1 | d < 1
d = 0 | d = d | d <> 1 | d >= 1e300 | d is null | d is not null | i between 0 and 10
d between -1 and 1 | i in (1, 2, null) | s in ('a', 'A b') | not b | b and i > 3 | b or d > 1
case when d > 1 then i else 0.5 end | case when b then 1 else 0 end | case s when 'a' then 1 end
lower(s) | trim(s) | length(s) | s || '!' | s || i | i || s | replace(s, 'a', 'bb')
replace(s, '', 'x') | starts_with(s, 'a') | contains(s, 'b') | contains(s, '') | s like 'a%'
s like '_' | s ilike 'a%' | s ilike 'GR%' | s not like '%b%' | extract(year from t)
extract(dow from t) | extract(isodow from t) | extract(week from t) | hour(t)
extract(doy from t) | extract(quarter from t) | day(t) | month(t) | year(t)
date_trunc('week', t) | date_trunc('hour', t) | date_trunc('day', t)
cast(date_trunc('month', t) as varchar) | cast(t as date) | t > timestamp '2026-01-01'
t > '2026-01-01' | s = 'a' | s > 'a' | s < 'Z' | i = 7.0 | i = '7' | t is null | 1e308 * d
12345678901234567890 + i | 0.1 + 0.2 = 0.3 | 1.10 | 2.50 * 2 | -7 // 2 | -7 % 3 | 5 / 2
cast(2.5 as int) | cast(3.5 as int) | cast(-2.5 as int) | cast('7' as int) | 1e-3 * i
0.5 * i * 2.25
"""
"""Both engines have an answer to these."""

REFUSED = """
try_cast(s as int) | try_cast(s as double) | try_cast(s as bigint) | try_cast(s as boolean)
cast(d as varchar) | cast(i / 4 as varchar) | cast(floor(d) as varchar)
cast(round(d) as varchar) | try_cast(s as date) | try_cast(s as timestamp) | upper(s) | b = 1
cast(d as decimal(10, 2)) | cast(d as float) | cast(d as hugeint) | cast(i as utinyint)
round(d, 2) | log(3, d) | s like 'x\\_%' | s like s | extract(second from t)
extract(epoch from t) | trunc(d) | sign(d) | isnan(d) | log(d) | log10(d) | floor(log(i))
left(s, 2) | right(s, 2) | substring(s, 2) | concat(s, '-', i) | split_part(s, ',', 2)
regexp_matches(s, '^a')
"""
"""To these Spark, or abeval on Spark, has none, because it would be another one."""


def listed(text: str) -> list[str]:
    """The expressions, one each."""
    return [part.strip() for part in text.replace("\n", " | ").split(" | ") if part.strip()]
