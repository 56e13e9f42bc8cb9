"""List names that columns and variants usually have: they say more than any statistic."""

import re
from collections.abc import Collection, Sequence


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


UNIT = _listed(
    """
    user_id userid user uid visitor_id visitor customer_id customer member_id player_id account_id
    client_id subject_id person_id device_id cookie_id cookie anonymous_id distinct_id auction_id
    session_id session participant_id participant patient_id patient respondent_id subject id
    """
)
VARIANT = _listed(
    """
    variant variation variant_name test_group ab_group experiment_group experiment_variant
    treatment_group group arm treatment treated treat trt condition con_treat version policy
    bucket experiment test ab cohort segment campaign algorithm model
    """
)
TIME = _listed(
    """
    ts timestamp event_time event_timestamp time datetime time_ms created_at occurred_at date day
    event_date visit_date
    """
)
CLICK = ("click", "clicked", "is_click", "is_clicked", "clicks", "click_flag")
COLUMNS = {
    "item_id": _listed(
        "item_id item video_id article_id movie_id product_id sku ad_id doc_id document_id "
        "news_id content_id track_id song_id post_id listing_id goods_id creative_id asin "
        "video article movie product sku ad doc document news content track song post listing goods"
    ),
    "position": _listed("position pos rank slot"),
    "score": _listed("score pctr p_ctr prediction pred predicted_ctr model_score"),
    "propensity": _listed("propensity propensity_score pscore"),
    "request_id": _listed("request_id request search_id query_id page_view_id list_id"),
    "impression_id": _listed("impression_id imp_id"),
    "dwell": _listed("dwell dwell_time dwell_seconds dwell_ms play_time_ms read_time watch_time"),
    "category": _listed("category tag genre topic"),
}
EVENT_TYPE = _listed(
    """
    event event_type event_name action action_type type behavior behaviour behavior_type
    interaction interaction_type activity
    """
)
SHOWN = _listed(
    """
    impression impressions imp imps shown show display displayed displays served view views viewed
    pageview pageviews pv
    """
)
"""What a unit saw, by the name of its file or the type of its rows; the first names say it best."""
CLICKS = _listed("click clicks clicked clk clks tap taps tapped")
EVENTS = _listed(
    """
    cart carts addtocart transaction transactions payment payments booking bookings favorite
    favorites wishlist sale purchases conversions signups reviews ratings comments likes
    installs subscriptions
    """
)
"""What a unit does beside clicks; further ones are outcomes."""
BEFORE = _listed(
    """
    before pre prior past previous history historical recency tenure
    """
)
OUTCOME = _listed(
    """
    conversion converted convert purchase purchased bought order orders revenue spend spent sales
    gmv amount visit visits visited signup signed_up retention retained return returned churn
    churned subscribed engaged sessions rounds gamerounds views likes like share shares yes
    response responded outcome success time_spent duration rating
    """
)
CONTROL = _listed(
    """
    control ctrl con cont ctl baseline base a old old_page original default none placebo psa
    holdout 0 false off no random champion current
    """
)
NEGATIVE = ("no", "without", "non")
DESCRIPTION = _listed(
    """
    age hour weekday year month zip zip_code zipcode lat lon width height os browser platform
    country index
    """
)
"""Numbers that describe a unit and are no outcome."""


def words(name: str) -> tuple[str, ...]:
    """Split a name into words, in lower case.

    >>> words("testGroup-ID 2")
    ('test', 'group', 'id', '2')
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return tuple(part for part in re.split(r"[^0-9a-z]+", spaced.lower()) if part)


def named(name: str, names: Sequence[str]) -> int | None:
    """Return the place of a name in a list, however it is written; None if it is not there.

    >>> named("UserID", ("visitor", "user_id")), named("userid", ("user_id",))
    (1, 0)
    """
    joined = "".join(words(name))
    spelled = [entry.replace("_", "") for entry in names]
    return spelled.index(joined) if joined in spelled else None


def has_word(name: str, listed: Collection[str]) -> bool:
    """Say whether one of a name's words, or the whole name, is in a list.

    >>> has_word("revenue_before", BEFORE), has_word("prefix", BEFORE)
    (True, False)
    """
    return any(word in listed for word in words(name)) or named(name, tuple(listed)) is not None


def slug(name: str) -> str:
    """Make a metric's name of a column's.

    >>> slug("Total ads"), slug("7-day revenue")
    ('total_ads', 'x_7_day_revenue')
    """
    joined = "_".join(words(name)) or "value"
    return joined if joined[0].isalpha() else f"x_{joined}"
