"""The admin is looked at. What may be done there has a name, and every name is in these tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib import admin
from django.contrib.admin.options import ModelAdmin
from django.db import models
from django.test import Client, RequestFactory
from django.urls import reverse

from accounts.models import User
from core.verbs import VerbsAdmin

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]

EDITED = {"benchmarks.threshold": {"add"}, "providers.gpumodel": {"add", "change"}}
"""The catalogue, and the dated thresholds over it: no money, no evidence, nothing of anybody's."""
ACTIONS = {
    "benchmarks.verdict": {"review_close"},
    "billing.payout": {"approve"},
    "billing.payoutrun": {"approve"},
    "marketplace.job": {"stop", "stop_all_of_the_customer"},
    "marketplace.listing": {"refresh"},
}
VERBS = {
    "billing.adjustment": {"propose", "confirm", "refuse"},
    "billing.bankdecision": {"confirm"},
    "billing.bankentry": {"decide"},
    "billing.bankfile": {"make", "approve", "fetch"},
    "billing.bankline": {"absent"},
    "billing.bankmessage": {"import", "fetch"},
    "billing.depositclaim": {"propose", "confirm", "decline"},
    "billing.chainmatch": {"book", "match"},
    "billing.destination": {"show"},
    "billing.destinationfreeze": {"clear"},
    "billing.eurrate": {"enter", "confirm"},
    "billing.payout": {"cancel", "resolve"},
    "billing.payouthold": {"release"},
    "marketplace.dispute": {"grant", "refuse"},
    "providers.application": {"approve", "ask", "reject"},
    "providers.enrolmenttoken": {"revoke"},
    "providers.gpu": {"accept", "decline"},
    "providers.machine": {"quarantine", "release", "revoke", "rotate", "accept-shortfalls"},
    "providers.provider": {"suspend", "reinstate", "close"},
}


def registered() -> list[tuple[str, ModelAdmin[models.Model]]]:
    return [(model._meta.label_lower, site) for model, site in admin.site._registry.items()]


@pytest.fixture
def root(olga: User) -> User:
    """Somebody whom no missing permission keeps from anything: what is refused here is refused to all."""
    olga.is_superuser = True
    olga.save(update_fields=["is_superuser"])
    return olga


@pytest.mark.parametrize("label", [label for label, _ in registered()])
def test_nothing_is_added_changed_or_deleted_by_a_form(label: str, root: User, signed_in: SignedIn) -> None:
    site = dict(registered())[label]
    request = RequestFactory().get("/admin/")
    request.user = root
    may = {name for name in ("add", "change", "delete") if getattr(site, f"has_{name}_permission")(request)}
    assert may == EDITED.get(label, set())
    for inline in site.get_inline_instances(request):
        rights = [getattr(inline, f"has_{name}_permission")(request, None) for name in ("add", "change", "delete")]
        assert rights == [False] * 3 or "change" in may, inline
    assert site.list_editable == ()
    client, name = signed_in(root), label.replace(".", "_")
    if "add" not in may:
        assert client.post(reverse(f"admin:{name}_add"), {}).status_code == 403
    # "0" is nobody's id: the right is asked for before the object is.
    for page in {"change", "delete"} - may:
        assert client.post(reverse(f"admin:{name}_{page}", args=["0"]), {"post": "yes"}).status_code in (302, 403)


def test_every_action_and_verb_has_its_name_in_a_table(root: User) -> None:
    request = RequestFactory().get("/admin/")
    request.user = root
    actions = {label: set(site.get_actions(request)) - {"delete_selected"} for label, site in registered()}
    assert {label: names for label, names in actions.items() if names} == ACTIONS
    # Deleting many at once is Django's own: it asks for the delete permission, which nobody has.
    assert not any("delete_selected" in site.get_actions(request) for _, site in registered())
    verbs = {
        label: {verb.name for verb in (*site.verbs, *site.list_verbs)}
        for label, site in registered()
        if isinstance(site, VerbsAdmin)
    }
    assert verbs == VERBS


def test_the_tables_name_nothing_that_is_gone() -> None:
    labels = {label for label, _ in registered()}
    assert labels.issuperset({*EDITED, *ACTIONS, *VERBS})
