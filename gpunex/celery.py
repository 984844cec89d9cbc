"""The Celery application: ``celery --app gpunex.celery worker|beat``. The schedule names every periodic verb."""

from __future__ import annotations

import os

from celery import Celery
from celery.signals import setup_logging

from gpunex.schedule import SCHEDULE

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpunex.settings")

app = Celery("gpunex")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.beat_schedule = SCHEDULE
app.autodiscover_tasks()


def queue_of(name: str, *_: object, **__: object) -> dict[str, str] | None:
    """A job is sent by its name alone; the queue stands beside its code. Celery asks here for every message."""
    if name not in app.tasks:
        app.loader.import_default_modules()  # a web process has imported no tasks yet
    queue = getattr(app.tasks.get(name), "queue", None)
    return None if queue is None else {"queue": queue}


app.conf.task_routes = (queue_of,)


@setup_logging.connect
def keep_django_logging(**_: object) -> None:
    """Celery leaves logging alone when somebody listens here; Django's LOGGING stays in force (Celery's own hook)."""
