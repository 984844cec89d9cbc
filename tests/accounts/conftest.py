from __future__ import annotations

import pytest
from django.template import engines

from accounts.services import notifications

TEXT = """{% load i18n %}Subject: {% translate "Log in" %} {{ thing }}
Hello {{ user.name }}, {{ thing }} & more: {{ link }}
Token: {{ token }}
"""


@pytest.fixture(autouse=True)
def tried_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """One mail template of the tests' own, ``tried``, beside the real ones."""
    made, real = engines["django"].from_string(TEXT), notifications.get_template
    monkeypatch.setattr(notifications, "get_template", lambda name: made if name == "mail/tried.txt" else real(name))
