from reliability.selectors.evidence import evidence_of
from reliability.selectors.explained import ScoreEvent, score_events, score_history
from reliability.selectors.health import health_of, machines_offline, score_of, score_parts
from reliability.selectors.live import telemetry_recent
from reliability.selectors.page import performance_of

__all__ = [
    "ScoreEvent",
    "evidence_of",
    "health_of",
    "machines_offline",
    "performance_of",
    "score_events",
    "score_history",
    "score_of",
    "score_parts",
    "telemetry_recent",
]
