from reliability.selectors.evidence import evidence_of
from reliability.selectors.explained import ScoreEvent, score_events, score_history
from reliability.selectors.health import health_of, machines_offline, score_of, score_parts
from reliability.selectors.live import telemetry_recent
from reliability.selectors.page import performance_of
from reliability.selectors.platform import listened_between

__all__ = [
    "ScoreEvent",
    "evidence_of",
    "health_of",
    "listened_between",
    "machines_offline",
    "performance_of",
    "score_events",
    "score_history",
    "score_of",
    "score_parts",
    "telemetry_recent",
]
