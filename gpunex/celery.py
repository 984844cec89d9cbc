"""The Celery application: ``celery --app gpunex.celery worker|beat``. The schedule names every periodic verb."""

from __future__ import annotations

import os

from celery import Celery
from celery.signals import setup_logging, task_prerun
from django.db import close_old_connections

from gpunex.routes import ROUTES
from gpunex.schedule import SCHEDULE

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpunex.settings")

app = Celery("gpunex")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.beat_schedule = SCHEDULE
app.conf.task_routes = ROUTES
app.autodiscover_tasks()


@setup_logging.connect
def keep_django_logging(**_: object) -> None:
    """Celery leaves logging alone when somebody listens here; Django's LOGGING stays in force (Celery's own hook)."""


@task_prerun.connect
def keep_database_connection(**_: object) -> None:
    """A worker keeps its connection for CONN_MAX_AGE, like a web process, and replaces one that broke (Celery's own hook)."""
    close_old_connections()
