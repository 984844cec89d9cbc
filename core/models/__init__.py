from core.models.base import BaseModel
from core.models.event import StatusEvent
from core.models.idempotency import IdempotencyKey
from core.models.news import Delivery
from core.models.slot import Slot

__all__ = ["BaseModel", "Delivery", "IdempotencyKey", "Slot", "StatusEvent"]
