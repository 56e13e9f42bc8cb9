-- grain: one row per variant, fate of units and twentieth of the AUC: its units, impressions and clicks
-- reads: gauc_unit (one row per analysed unit, the t_ columns of 4_metrics/gauc)
-- a unit is judged if its scored impressions have both classes; bin 0 is an AUC of 0 to .05, 19 is
-- .95 to 1, and -1 stands for no AUC; only clicks of units that are left out are counted
with fated as (
  select
    variant, t_weighted_auc as weighted, t_impressions as judged,
    t_impressions + t_left_out_impressions as impressions,
    t_left_out_clicks as left_out_clicks,
    case
      when t_impressions > 0 then 'judged'
      when t_left_out_impressions = 0 then 'no_score'
      when t_left_out_impressions = 1 then 'single_impression'
      when t_left_out_clicks = 0 then 'no_click'
      else 'only_clicks'
    end as fate
  from gauc_unit
),
placed as (
  select
    variant, fate, impressions, left_out_clicks,
    case
      when judged > 0
        then least(cast(floor(cast(weighted as double) / nullif(5.0e7 * judged, 0)) as bigint), 19)
      else -1
    end as bin
  from fated
)
select
  variant, fate, bin, count(*) as units,
  cast(sum(impressions) as bigint) as impressions,
  cast(sum(left_out_clicks) as bigint) as left_out_clicks
from placed
group by variant, fate, bin
order by variant, fate, bin
