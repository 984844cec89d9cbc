from __future__ import annotations

from uuid import uuid4

from django import forms
from django.utils.translation import gettext_lazy as _

from core.errors import DomainError
from core.forms import add_domain_error
from core.money import parse_usdc

TRANSACTION_HELP = _("As your wallet or the exchange shows it; 87 or 88 letters and digits.")


class _AmountForm(forms.Form):
    """Cleans ``amount``, as people write it, to ``amount_micro``; None where it is empty."""

    def clean(self) -> dict[str, object]:
        text = self.cleaned_data.get("amount") or ""
        self.cleaned_data["amount_micro"] = None
        if text:
            try:
                self.cleaned_data["amount_micro"] = parse_usdc(text)
            except DomainError as error:
                add_domain_error(self, error)
        return self.cleaned_data


class DepositForm(_AmountForm):
    """How much somebody wants to pay in; empty: their wallet decides."""

    amount = forms.CharField(
        label=_("Amount in USDC"),
        required=False,
        max_length=24,
        widget=forms.TextInput(attrs={"inputmode": "decimal", "placeholder": "25.00", "autocomplete": "off"}),
        help_text=_("Leave it empty to choose the amount in your wallet."),
    )


class WithdrawalForm(_AmountForm):
    """How much leaves the balance. The key names this one request: sent twice, it is one withdrawal."""

    amount = forms.CharField(
        label=_("Amount in USDC"),
        max_length=24,
        widget=forms.TextInput(attrs={"inputmode": "decimal", "placeholder": "25.00", "autocomplete": "off"}),
        help_text=_("What leaves your balance. The wallet gets it less the fee."),
    )
    request_key = forms.UUIDField(widget=forms.HiddenInput, initial=uuid4)


class WalletForm(forms.Form):
    address = forms.CharField(label=_("Solana wallet address"), max_length=64)


class SignatureForm(forms.Form):
    address = forms.CharField(max_length=64, widget=forms.HiddenInput)
    signature = forms.CharField(
        label=_("Signature"), max_length=128, help_text=_("What the wallet gives back for exactly this text (base58).")
    )


class WalletClaimForm(forms.Form):
    """A payment that one's own wallet sent."""

    transaction = forms.CharField(label=_("Transaction"), max_length=100, help_text=TRANSACTION_HELP)
    address = forms.CharField(label=_("Wallet it was sent from"), max_length=64)


class ProofForm(forms.Form):
    proof = forms.CharField(
        label=_("Signature"), max_length=128, help_text=_("What the wallet gives back for exactly this text (base58).")
    )


class EvidenceClaimForm(forms.Form):
    """A payment that an exchange, or another wallet that cannot sign, sent for somebody."""

    transaction = forms.CharField(label=_("Transaction"), max_length=100, help_text=TRANSACTION_HELP)
    evidence = forms.CharField(
        label=_("Why it is yours"),
        max_length=2_000,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=_("Which exchange, its withdrawal number, the time and the amount. No passwords."),
    )
