from providers.admin.applications import ApplicationAdmin
from providers.admin.catalogue import GpuModelAdmin
from providers.admin.fleet import EnrolmentTokenAdmin, GpuAdmin, MachineAdmin, ProviderAdmin

__all__ = ["ApplicationAdmin", "EnrolmentTokenAdmin", "GpuAdmin", "GpuModelAdmin", "MachineAdmin", "ProviderAdmin"]
