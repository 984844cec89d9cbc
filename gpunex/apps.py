from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class GpunexConfig(AppConfig):
    name = "gpunex"
    verbose_name = "GPUnex"


class GpunexAdminConfig(AdminConfig):
    default_site = "gpunex.admin_site.OperationsSite"
