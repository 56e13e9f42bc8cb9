"""List names that columns and variants usually have: they say more than any statistic."""

import re
from collections.abc import Collection, Sequence
from functools import cache


def listed(text: str) -> tuple[str, ...]:
    """Split a text into words."""
    return tuple(text.split())


UNIT = listed(
    """
    user_id userid user uid visitor_id visitor customer_id customer member_id player_id account_id
    client_id subject_id person_id device_id cookie_id cookie anonymous_id distinct_id auction_id
    session_id session participant_id participant patient_id patient respondent_id subject email
    student_id student employee_id reader_id subscriber_id
    用户id usuario_id id_usuario пользователь id_пользователя utilisateur_id benutzer_id id
    """
)
PLACE = listed(
    """
    store shop location school clinic city site branch hospital village household family cluster
    class classroom restaurant warehouse county district region market team driver merchant seller
    """
)
"""Units of which people or days are rows."""
VARIANT = listed(
    """
    variant variation variant_name test_group ab_group experiment_group experiment_variant
    treatment_group treatment treated treat trt arm con_treat group condition version policy
    bucket experiment test ab cohort segment campaign campaign_name promotion promo intervention
    exposed algorithm model
    变体 组别 分组 实验组 समूह प्रकार grupo variante tratamiento brazo مجموعة المجموعة
    groupe traitement bras গ্রুপ দল tratamento группа вариант グループ 群 gruppe behandlung
    grup kelompok perlakuan گروپ گروہ
    """
)
IN_VARIANT = ("variant", "treatment", "treated", "treat", "experiment", "exp", "test", "arm")
"""Words in the names of variants, which other columns may have too: `test_coupon`."""
TIME = listed(
    """
    ts timestamp event_time event_timestamp time datetime time_ms created_at occurred_at date day
    event_date visit_date
    """
)
CLICK = ("click", "clicked", "is_click", "is_clicked", "clicks", "click_flag")
COLUMNS = {
    "item_id": listed(
        "item_id item video_id article_id movie_id product_id sku ad_id doc_id document_id "
        "news_id content_id track_id song_id post_id listing_id goods_id creative_id asin "
        "video article movie product sku ad doc document news content track song post listing goods"
    ),
    "position": listed("position pos rank slot"),
    "score": listed("score pctr p_ctr prediction pred predicted_ctr model_score"),
    "propensity": listed("propensity propensity_score pscore"),
    "request_id": listed("request_id request search_id query_id page_view_id list_id"),
    "impression_id": listed("impression_id imp_id"),
    "dwell": listed("dwell dwell_time dwell_seconds dwell_ms play_time_ms read_time watch_time"),
    "category": listed("category tag genre topic"),
}
EVENT_TYPE = listed(
    """
    event event_type event_name action action_type type behavior behaviour behavior_type
    interaction interaction_type activity
    """
)
SHOWN = listed(
    """
    impression impressions imp imps shown show display displayed displays served view views viewed
    pageview pageviews pv
    """
)
"""What a unit saw, by the name of its file or the type of its rows; the first names say it best."""
CLICKS = listed("click clicks clicked clk clks tap taps tapped")
EVENTS = listed(
    """
    cart carts addtocart transaction transactions payment payments booking bookings favorite
    favorites wishlist sale purchases conversions signups reviews ratings comments likes
    installs subscriptions
    """
)
"""What a unit does beside clicks; further ones are outcomes."""
BEFORE = listed(
    """
    before pre prior past previous history historical recency tenure since last
    """
)
NOT_BEFORE = (
    *((word, "before") for word in ("time", "days", "hours", "minutes", "seconds")),
    *(("pre", word) for word in ("order", "orders", "sale", "sales", "roll")),
)
"""Words of which one is in `BEFORE`, and which mean something else together."""
OUTCOME = listed(
    """
    conversion conversions converted convert purchase purchases purchased buy bought order orders
    revenue spend spent sales gmv amount profit income visit visits visited signup signups signed_up
    sign_up registered activated retention retained return returned returns subscribed engaged
    engagement sessions rounds gamerounds views like likes share shares yes response responded
    success rating nps ltv click clicked clicks ctr after issued approved paid sold downloads
    donation donations donated deposit deposits transactions earning earnings
    """
)
COST = listed(
    """
    cost costs cpa cpc cpm cac expense expenses loss losses refund refunds refunded chargeback
    chargebacks latency error errors failure failures failed crash crashes crashed timeout timeouts
    complaint complaints complained unsubscribe unsubscribes unsubscribed bounce bounces bounced
    churn churned cancel cancels cancelled canceled cancellation cancellations debt delay wait
    waiting load load_time response_time ttfb lcp fraud ticket tickets abandoned abandonment died
    death deaths mortality relapse readmission readmitted defect defects uninstall uninstalls
    uninstalled dropout optout opt_out stockout stockouts attack attacks infection infected illness
    injury injuries accident accidents pain
    """
)
"""Outcomes of which less is better."""
EITHER = listed(
    "spend spent spending price return returned returns duration time minutes seconds ms score "
    "outcome result results"
)
"""Outcomes of which more or less may be better."""
BUYING = listed("customer buyer shopper conversion converted purchase purchased order orders")
"""Beside these, what is spent is revenue."""
AVERAGED = listed("latency load time duration rating score price delay wait waiting nps ms ttfb")
"""Of several rows of a unit the mean says something, and the sum does not."""
COUNTED = (*CLICK, "likes", "like")
SEEN = ("impressions", "impression", "imps", "views", "pageviews", "displays")
"""Counts of what could be clicked."""
STAGE = listed(
    "stage test_stage experiment_stage period phase wave timepoint pre_post prepost when"
)
STAGE_BEFORE = listed("pre before training train warmup warm_up prior previous")
STAGE_DURING = listed("test during experiment live main treatment")
AFTER = listed("post after is_post post_period is_after during in_period is_test_period")
"""Columns that are 1 in the rows of the experiment, and 0 in those before."""
CONTROL = listed(
    """
    control ctrl con cont ctl baseline base a old old_page original default none placebo psa
    holdout 0 false off no random champion current n не нет não nein non
    """
)
SURE_CONTROL = listed(
    """
    control ctrl ctl placebo holdout 对照组 对照 控制组 नियंत्रण कंट्रोल ضابطة الضابطة تحكم
    témoin temoin contrôle controle নিয়ন্ত্রণ контроль контрольная контрольный
    対照群 対照 統制群 コントロール kontrolle kontrollgruppe kontroll kontrol کنٹرول
    """
)
"""Names of a control, whole or as the first or last word, that mean nothing else."""
NEGATIVE = ("no", "without")
YES = listed("yes y true t on 1 是 हाँ sí si نعم oui হ্যাঁ sim да はい ja ya ہاں")
NO = listed("no n false f off 0 否 नहीं لا non না não nao нет いいえ nein tidak نہیں")
DESCRIPTION = listed(
    """
    age hour weekday year month week zip zip_code zipcode lat lon latitude longitude width height os
    browser platform country index gender sex newbie mens womens male female row
    """
)
"""Numbers that describe a unit and are no outcome."""


@cache
def words(name: str) -> tuple[str, ...]:
    """Split a name into words, in lower case.

    >>> words("testGroup-ID 2")
    ('test', 'group', 'id', '2')
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    # Vowels of Hindi and Bengali are marks of their own.
    return tuple(part for part in re.split(r"(?:[^\w\u0900-\u0dff]|_)+", spaced.lower()) if part)


def named(name: str, names: Sequence[str]) -> int | None:
    """Return the place of a name in a list, however it is written; None if it is not there.

    Of a field such as `context.user_id`, the last part counts.

    >>> named("UserID", ("visitor", "user_id")), named("userid", ("user_id",))
    (1, 0)
    """
    joined = "".join(words(name.rsplit(".", 1)[-1]))
    spelled = [entry.replace("_", "") for entry in names]
    return spelled.index(joined) if joined in spelled else None


def has_word(name: str, listed: Collection[str]) -> bool:
    """Say whether one of a name's words, or the whole name, is in a list.

    >>> has_word("revenue_before", BEFORE), has_word("prefix", BEFORE)
    (True, False)
    """
    return any(word in listed for word in words(name)) or named(name, tuple(listed)) is not None


def yes_and_no(values: Collection[str]) -> tuple[list[str], list[str]] | None:
    """Set the spellings of yes and of no apart; None where a value is neither.

    >>> yes_and_no(["Yes", "no", "NO"]), yes_and_no(["yes", "maybe"]), yes_and_no(["yes"])
    ((['Yes'], ['no', 'NO']), None, None)
    """
    said = [[v for v in values if v.strip().lower() in listed] for listed in (YES, NO)]
    yes, no = said
    return (yes, no) if yes and no and len(yes) + len(no) == len(values) else None


def slug(name: str) -> str:
    """Make a metric's name of a column's.

    >>> slug("Total ads"), slug("7-day revenue")
    ('total_ads', 'x_7_day_revenue')
    """
    joined = "_".join(part for part in words(name) if part.isascii()) or "value"
    return joined if joined[0].isalpha() else f"x_{joined}"
