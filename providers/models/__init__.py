from providers.models.application import Application, ApplicationGpuGroup, Tier
from providers.models.catalogue import GpuModel, GpuModelAlias
from providers.models.claim import GpuClaim
from providers.models.gpu import Gpu
from providers.models.machine import Machine, MachineCredential
from providers.models.plan import PlanItem
from providers.models.provider import EnrolmentToken, Provider
from providers.models.schedule import Schedule

__all__ = [
    "Application",
    "ApplicationGpuGroup",
    "EnrolmentToken",
    "Gpu",
    "GpuClaim",
    "GpuModel",
    "GpuModelAlias",
    "Machine",
    "MachineCredential",
    "PlanItem",
    "Provider",
    "Schedule",
    "Tier",
]
