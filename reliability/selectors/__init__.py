from reliability.selectors.evidence import evidence_of
from reliability.selectors.explained import ScoreEvent, score_events, score_history
from reliability.selectors.health import health_of, machines_offline, occupied_of, score_of, score_parts
from reliability.selectors.live import seen_last
from reliability.selectors.outages import Outage, outages_of, silent_together
from reliability.selectors.page import performance_of
from reliability.selectors.platform import listened_between
from reliability.selectors.telemetry import Series, telemetry_series

__all__ = [
    "Outage",
    "ScoreEvent",
    "Series",
    "evidence_of",
    "health_of",
    "listened_between",
    "machines_offline",
    "occupied_of",
    "outages_of",
    "performance_of",
    "score_events",
    "score_history",
    "score_of",
    "score_parts",
    "seen_last",
    "silent_together",
    "telemetry_series",
]
