"""Admin pages whose actions are services: a button per verb, a page that asks for the reason, one call.

Nothing is edited by a model form. A verb needs the model's change permission; a refusal is shown on its page.
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
    """``call(subject, actor, values)`` runs the service; ``offered(subject)`` says whether the button is shown."""

    name: str
    label: Text
    call: Callable[[Any, Any, dict[str, Any]], object]
    offered: Callable[[Any], bool]
    form: type[ConfirmForm] = ReasonForm
    explanation: Text = ""


class VerbsAdmin(ReadOnlyAdmin):
    """A read-only model page with verbs."""

    verbs: tuple[Verb, ...] = ()
    change_form_before_template = "providers/admin/verbs.html"

    def may_act(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}"))

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.verb_view)
        route = path("<uuid:object_id>/do/<slug:verb_name>/", view, name=f"{self._base}_verb")
        return [route, *super().get_urls()]

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
            offered = [verb for verb in self.verbs if verb.offered(subject)] if self.may_act(request) else []
            shown = {
                "verbs": [(verb.label, self._verb_url(subject, verb)) for verb in offered],
                **self.page_context(subject),
            }
        return cast(HttpResponse, super().change_view(request, object_id, form_url, {**shown, **(extra_context or {})}))

    def _verb_url(self, subject: Any, verb: Verb) -> str:
        return reverse(f"admin:{self._base}_verb", args=[subject.pk, verb.name])

    def verb_view(self, request: HttpRequest, object_id: UUID, verb_name: str) -> HttpResponse:
        if not self.may_act(request):
            raise PermissionDenied
        subject = self.get_object(request, str(object_id))
        verb = next((each for each in self.verbs if each.name == verb_name), None)
        if subject is None or verb is None:
            raise Http404
        back = reverse(f"admin:{self._base}_change", args=[subject.pk])
        form = verb.form(request.POST if request.method == "POST" else None, subject=subject)
        if request.method == "POST" and form.is_valid():
            try:
                verb.call(subject, request.user, form.cleaned_data)
            except DomainError as error:
                add_domain_error(form, error)
            else:
                messages.success(request, _("Done: %(verb)s.") % {"verb": verb.label})
                return HttpResponseRedirect(back)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": verb.label,
            "verb": verb,
            "subject": subject,
            "form": form,
            "back": back,
        }
        return TemplateResponse(request, "providers/admin/verb.html", context)
