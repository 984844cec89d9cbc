"""What import-linter cannot see: string foreign keys, job names, dotted paths, pins."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.utils.module_loading import import_string

from core.invariants import Invariant
from gpunex.celery import app as celery_app
from gpunex.schedule import SCHEDULE
from gpunex.wiring import INVARIANTS, NEWS
from tests.architecture.layers import ROOT, apps_low_to_high, rank
from tests.architecture.pins import FILES, unpinned

DJANGO_APPS = [name for name in apps_low_to_high() if name != "agent_protocol"]


def enqueued(source: str) -> Iterator[tuple[int, str | None]]:
    """(line, job name) of every ``enqueue(…)`` call; None where the name is not a literal."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        if called == "enqueue":
            first = node.args[0] if node.args else None
            literal = isinstance(first, ast.Constant) and isinstance(first.value, str)
            yield node.lineno, first.value if literal else None  # type: ignore[union-attr,misc]


def problem_of_job(caller_app: str, name: str | None, registered: dict[str, str]) -> str | None:
    """Why this call is wrong, or None. ``registered``: job name → app that registers it."""
    if name is None:
        return "the job's name is not a literal"
    if name not in registered:
        return f"{name} is not registered"
    if rank(registered[name]) > rank(caller_app):
        return f"{name} is registered in {registered[name]}, which is higher than {caller_app}"
    return None


@pytest.fixture(scope="module")
def registered() -> dict[str, str]:
    celery_app.loader.import_default_modules()
    ours = {name: task.run.__module__.partition(".")[0] for name, task in celery_app.tasks.items()}
    return {name: app for name, app in ours.items() if app in DJANGO_APPS}


def test_every_enqueued_job_is_registered_in_an_app_not_higher_than_the_caller(registered: dict[str, str]) -> None:
    problems = []
    for app in DJANGO_APPS:
        for path in sorted((ROOT / app).rglob("*.py")):
            if path == ROOT / "core/jobs.py":
                continue
            for line, name in enqueued(path.read_text()):
                problem = problem_of_job(app, name, registered)
                if problem:
                    problems.append(f"{path.relative_to(ROOT)}:{line}: {problem}")
    assert problems == []


def test_the_job_check_sees_a_missing_a_higher_and_a_computed_name() -> None:
    found = list(enqueued('jobs.enqueue("core.known")\nenqueue(name)\nenqueue("core.nowhere")'))
    assert found == [(1, "core.known"), (2, None), (3, "core.nowhere")]
    known = {"core.known": "core", "marketplace.known": "marketplace"}
    assert problem_of_job("core", "core.known", known) is None
    assert problem_of_job("core", None, known) is not None
    assert problem_of_job("core", "core.nowhere", known) is not None
    assert problem_of_job("core", "marketplace.known", known) is not None


def test_a_jobs_name_starts_with_the_app_that_registers_it(registered: dict[str, str]) -> None:
    assert {name: app for name, app in registered.items() if name.partition(".")[0] != app} == {}


def test_every_periodic_verb_is_registered(registered: dict[str, str]) -> None:
    assert {entry["task"] for entry in SCHEDULE.values()} - set(registered) == set()


def test_foreign_keys_named_by_string_respect_the_layers() -> None:
    upwards = []
    for model in apps.get_models():
        app = model._meta.app_config.name
        if app not in DJANGO_APPS:
            continue
        for field in model._meta.get_fields():
            other = field.related_model if field.is_relation and not field.auto_created else None
            if isinstance(other, type):
                target = other._meta.app_config.name
                if target in DJANGO_APPS and rank(target) > rank(app):
                    upwards.append(f"{model._meta.label}.{field.name} → {other._meta.label}")
    assert upwards == []


def test_only_billing_points_at_rows_of_the_ledger() -> None:
    outside = [
        f"{model._meta.label}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if field.is_relation and not field.auto_created and isinstance(field.related_model, type)
        if field.related_model._meta.app_label == "billing" and model._meta.app_label != "billing"
    ]
    assert outside == []


def test_every_consumer_of_news_has_a_handler_that_takes_one_subject() -> None:
    consumers = {name for names in NEWS.topics.values() for name in names}
    assert consumers == set(NEWS.handlers)
    for consumer, path in NEWS.handlers.items():
        handler = import_string(path)
        # The dotted path goes through a package of services, and the consumer is named after its app.
        assert path.partition(".")[0] == consumer.partition(".")[0]
        inspect.signature(handler).bind(object())


def test_every_invariant_of_the_wiring_is_one() -> None:
    for path in INVARIANTS:
        assert issubclass(import_string(path), Invariant)


def test_nothing_imports_inside_a_function_but_apps() -> None:
    offenders = []
    for package in [*DJANGO_APPS, "agent_protocol", "agent"]:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.name != "apps.py" and _has_local_import(path):
                offenders.append(str(path.relative_to(ROOT)))
    assert offenders == []


def _has_local_import(path: Path) -> bool:
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return any(isinstance(inner, ast.Import | ast.ImportFrom) for each in functions for inner in ast.walk(each))


def test_every_requirement_is_pinned_with_a_hash() -> None:
    assert {name: unpinned((ROOT / name).read_text()) for name in FILES} == {name: [] for name in FILES}
    assert unpinned("django>=5\nhttpx==1.0\n") == ["django>=5", "httpx==1.0"]
