from reliability.models.events import Incident, Outcome
from reliability.models.notice import OfflineNotice, OfflineNoticeMachine
from reliability.models.occupancy import GpuOccupancy
from reliability.models.online import Flip, MachineHealth, OnlineInterval
from reliability.models.platform import PlatformOutage, PlatformPulse
from reliability.models.score import Score, ScoreDay
from reliability.models.telemetry import TelemetryRollup

__all__ = [
    "Flip",
    "GpuOccupancy",
    "Incident",
    "MachineHealth",
    "OfflineNotice",
    "OfflineNoticeMachine",
    "OnlineInterval",
    "Outcome",
    "PlatformOutage",
    "PlatformPulse",
    "Score",
    "ScoreDay",
    "TelemetryRollup",
]
