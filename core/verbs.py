"""Admin pages whose actions are services: a button per verb, a page that asks for the reason, one call.

Nothing is edited by a model form. A verb needs the model's change permission, or its own; a refusal is shown on its page.
Verbs of the list make something new, or act on the whole: they have no object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextareaWidget

from core.admin import ReadOnlyAdmin
from core.errors import DomainError
from core.forms import add_domain_error

Text = str | Promise


class ConfirmForm(forms.Form):
    """Asks for nothing but the click. Subclasses add fields and get the object as ``subject``."""

    def __init__(self, *args: Any, subject: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.subject = subject


class ReasonForm(ConfirmForm):
    """What nearly every verb asks for."""

    reason = forms.CharField(label=_("Reason"), max_length=2000, widget=UnfoldAdminTextareaWidget())


@dataclass(frozen=True)
class Verb:
    """``call(subject, actor, values)`` runs the service; ``offered(subject)`` says whether the button is shown.

    What it returns is forgotten, except a response (a download), which is sent, and a text, which is shown on the verb's page.
    ``permission`` is a codename such as ``add_bankfile``; empty: the model's change permission.
    """

    name: str
    label: Text
    call: Callable[[Any, Any, dict[str, Any]], object]
    offered: Callable[[Any], bool]
    form: type[ConfirmForm] = ReasonForm
    explanation: Text = ""
    permission: str = ""


class VerbsAdmin(ReadOnlyAdmin):
    """A read-only model page with verbs."""

    verbs: tuple[Verb, ...] = ()
    list_verbs: tuple[Verb, ...] = ()
    change_form_before_template = "core/admin/verbs.html"
    list_before_template = "core/admin/verbs.html"

    def may_act(self, request: HttpRequest, verb: Verb | None = None) -> bool:
        codename = (verb and verb.permission) or f"change_{self.opts.model_name}"
        return bool(request.user.has_perm(f"{self.opts.app_label}.{codename}"))

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.verb_view)
        routes = [
            path("<uuid:object_id>/do/<slug:verb_name>/", view, name=f"{self._base}_verb"),
            path("do/<slug:verb_name>/", view, name=f"{self._base}_list_verb"),
        ]
        return [*routes, *super().get_urls()]

    @property
    def _base(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}"

    def page_context(self, subject: Any) -> dict[str, Any]:
        """What the object's page shows above its fields."""
        return {}

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        subject = self.get_object(request, object_id)
        shown: dict[str, Any] = {}
        if subject is not None and self.has_view_permission(request, subject):
            offered = [verb for verb in self.verbs if verb.offered(subject) and self.may_act(request, verb)]
            shown = {
                "verbs": [(verb.label, self._verb_url(subject, verb)) for verb in offered],
                **self.page_context(subject),
            }
        return cast(HttpResponse, super().change_view(request, object_id, form_url, {**shown, **(extra_context or {})}))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        offered = [verb for verb in self.list_verbs if self.may_act(request, verb)]
        links = [(verb.label, reverse(f"admin:{self._base}_list_verb", args=[verb.name])) for verb in offered]
        shown = {"verbs": links, **(extra_context or {})}
        return cast(HttpResponse, super().changelist_view(request, shown))

    def _verb_url(self, subject: Any, verb: Verb) -> str:
        return reverse(f"admin:{self._base}_verb", args=[subject.pk, verb.name])

    def verb_view(self, request: HttpRequest, verb_name: str, object_id: UUID | None = None) -> HttpResponse:
        among = self.list_verbs if object_id is None else self.verbs
        verb = next((each for each in among if each.name == verb_name), None)
        if not self.may_act(request, verb):
            raise PermissionDenied
        subject = None if object_id is None else self.get_object(request, str(object_id))
        if verb is None or (subject is None and object_id is not None):
            raise Http404
        page = f"admin:{self._base}_change" if subject else f"admin:{self._base}_changelist"
        back = reverse(page, args=[subject.pk] if subject else [])
        sent = (request.POST, request.FILES) if request.method == "POST" else (None, None)
        form, shown = verb.form(*sent, subject=subject), ""
        if request.method == "POST" and form.is_valid():
            try:
                answer = verb.call(subject, request.user, form.cleaned_data)
            except DomainError as error:
                add_domain_error(form, error)
            else:
                if isinstance(answer, HttpResponse):
                    return answer
                if not isinstance(answer, str):
                    messages.success(request, _("Done: %(verb)s.") % {"verb": verb.label})
                    return HttpResponseRedirect(back)
                shown = answer
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": verb.label,
            "verb": verb,
            "subject": subject,
            "form": form,
            "back": back,
            "shown": shown,
        }
        return TemplateResponse(request, "core/admin/verb.html", context, headers={"Cache-Control": "no-store"})
