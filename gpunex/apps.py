from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class GpunexConfig(AppConfig):
    name = "gpunex"
    verbose_name = "GPUnex"

    def ready(self) -> None:
        # Every Django process sends jobs through our broker; without this Celery's default app would be used.
        import gpunex.celery  # noqa: F401


class GpunexAdminConfig(AdminConfig):
    default_site = "gpunex.admin_site.OperationsSite"
