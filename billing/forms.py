from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from core.errors import DomainError
from core.forms import add_domain_error
from core.money import parse_usdc


class DepositForm(forms.Form):
    """How much somebody wants to pay in; empty: their wallet decides."""

    amount = forms.CharField(
        label=_("Amount in USDC"),
        required=False,
        max_length=24,
        widget=forms.TextInput(attrs={"inputmode": "decimal", "placeholder": "25.00", "autocomplete": "off"}),
        help_text=_("Leave it empty to choose the amount in your wallet."),
    )

    def clean(self) -> dict[str, object]:
        text = self.cleaned_data.get("amount") or ""
        self.cleaned_data["amount_micro"] = None
        if text:
            try:
                self.cleaned_data["amount_micro"] = parse_usdc(text)
            except DomainError as error:
                add_domain_error(self, error)
        return self.cleaned_data
