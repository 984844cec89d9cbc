"""Before something that a stolen session must not do, people say once more who they are, and staff show their second factor."""

from __future__ import annotations

import time

from allauth.account.authentication import get_authentication_records
from allauth.account.internal.flows.reauthentication import did_recently_reauthenticate
from allauth.core.exceptions import ReauthenticationRequired
from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

SECOND_FACTOR_SECONDS = 300
"""As long as allauth takes a password for fresh: enough to look at a payout run, too short for a lunch."""


def identity_confirmed(request: HttpRequest) -> bool:
    """Whether the person has confirmed who they are in this session, within allauth's REAUTHENTICATION_TIMEOUT."""
    return bool(did_recently_reauthenticate(request))


def identity_confirm(request: HttpRequest) -> None:
    """Go on if the person has just confirmed who they are (password, mailed code, second factor).

    Raises ReauthenticationRequired: allauth's middleware asks, and repeats the request after the answer.
    """
    if not identity_confirmed(request):
        raise ReauthenticationRequired


def second_factor_missing(request: HttpRequest) -> HttpResponse | None:
    """None when the person has shown their second factor just now; else the way to the page that asks for it, and back.

    The demo's people have none (it listens on loopback only); with one, they are asked, too.
    """
    if not is_mfa_enabled(request.user):
        if settings.DEMO:
            return None
        messages.warning(request, _("This needs a second factor. Set one up, then come back."))
        return HttpResponseRedirect(reverse("mfa_index"))
    shown = [row["at"] for row in get_authentication_records(request, request.user) if row.get("method") == "mfa"]
    if shown and time.time() - max(shown) < SECOND_FACTOR_SECONDS:
        return None
    messages.warning(request, _("Show your second factor once more, then do it again: it has to be fresh for this."))
    return HttpResponseRedirect(f"{reverse('mfa_reauthenticate')}?{urlencode({'next': request.get_full_path()})}")
