"""Where a service's refusal meets a form: every sentence stands beside the field it is about."""

from __future__ import annotations

from django import forms

from core.errors import DomainError


def add_domain_error(form: forms.BaseForm, error: DomainError) -> None:
    """Put a named error on ``form``: each field's sentences beside that field, everything else above the form.

    A sentence about something that is not a field of this form keeps the name, so that nothing is swallowed.
    """
    if not error.fields:
        form.add_error(None, error.message)
    for name, sentences in error.fields.items():
        for sentence in sentences:
            if name in form.fields:
                form.add_error(name, sentence)
            else:
                form.add_error(None, f"{name}: {sentence}")
