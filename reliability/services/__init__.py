from reliability.services.events import incident_record, outcome_record
from reliability.services.heartbeats import heartbeats_flush, heartbeats_note
from reliability.services.notices import offline_notices_send
from reliability.services.occupancy import occupancies_judge
from reliability.services.platform import platform_started
from reliability.services.scores import scores_recompute
from reliability.services.sweep import offline_sweep
from reliability.services.telemetry import telemetry_roll_up

__all__ = [
    "heartbeats_flush",
    "heartbeats_note",
    "incident_record",
    "occupancies_judge",
    "offline_notices_send",
    "offline_sweep",
    "outcome_record",
    "platform_started",
    "scores_recompute",
    "telemetry_roll_up",
]
