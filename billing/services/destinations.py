"""Where a party is paid: a wallet that exists as a wallet, and whose key signed our challenge; or its own bank account."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Party
from accounts.selectors import former_addresses
from accounts.services import notification_send
from billing.chain.addresses import PROBLEM_TEXTS, DestinationRefused, address_check, destination_check
from billing.chain.errors import RpcError
from billing.chain.wallets import signature_is_valid
from billing.models import Destination, DestinationChallenge, Purpose, Rail
from billing.rails import RAILS
from billing.rails.base import masked
from billing.selectors.freezes import freeze_of
from billing.selectors.payouts import destination_shown
from billing.selectors.policies import policy_value
from billing.services.audit import audit_record
from billing.services.bank.account import our_account
from billing.services.challenges import challenge_text
from billing.services.network import Network, NetworkUnavailable, network
from billing.services.payee_freezes import LINK_DAYS, freeze_token
from billing.states import DESTINATION
from core.errors import Conflict, Invalid
from core.locks import lock_name

CHALLENGE_SECONDS = 600
"""Long enough to open a wallet and sign, short enough that a text found later opens nothing."""

_TEXTS = {
    Purpose.PAYOUT.value: ("confirm a payout wallet", "payout destination", "Provider"),
    Purpose.WITHDRAWAL.value: ("confirm a withdrawal wallet", "withdrawal destination", "Customer"),
}
"""What the text asks for, its purpose, and who it is for: a text for one purpose proves nothing for the other."""


def destination_challenge(
    *, party: Party, address: str, now: datetime, purpose: str = Purpose.PAYOUT
) -> DestinationChallenge:
    """A text for the wallet at ``address`` to sign within ten minutes.

    Raises Invalid (field address: no wallet, ours, a mint, a token account, …), NetworkUnavailable.
    """
    address = address.strip()
    net = network()
    _check_address(net, address)
    expires_at = now + timedelta(seconds=CHALLENGE_SECONDS)
    asks, what, role = _TEXTS[purpose]
    lines = {role: str(party.pk), "Address": address}
    text = challenge_text(asks=asks, purpose=what, lines=lines, genesis_hash=net.genesis_hash, expires_at=expires_at)
    return DestinationChallenge.objects.create(
        party=party, purpose=purpose, address=address, text=text, expires_at=expires_at, created_at=now
    )


def destination_prove(
    *, party: Party, address: str, signature: str, now: datetime, purpose: str = Purpose.PAYOUT
) -> Destination:
    """Make ``address`` the party's wallet for a purpose, by its signature of the latest challenge for it (base58).

    The challenge is used up by the first answer, right or wrong. Payouts that are open keep their own destination.
    Raises Invalid (field signature or address), Conflict (no open challenge), NetworkUnavailable.
    """
    address = address.strip()
    net = network()
    _check_address(net, address)
    challenge = _consume(party, address, purpose, now)
    if not signature_is_valid(address=address, message=challenge.text.encode(), signature=signature.strip()):
        found = f"{signature.strip()[:16]}…"
        raise Invalid.field(
            "signature", found=found, allowed="this wallet's signature of exactly the text shown; ask for a new text"
        )
    return _replace(party, now, rail=Rail.USDC, address=address, purpose=purpose)


def destination_bank_set(*, party: Party, account: str, scheme: str, now: datetime) -> Destination:
    """Make a bank account the party's payout destination. Its holder is the party's legal name, whatever anybody enters.

    Notices, cool-down and what becomes of open payouts are those of a wallet.
    Raises Invalid (fields scheme, account, holder), BankUnavailable (we have no account to pay from on that rail).
    """
    if scheme not in RAILS:
        raise Invalid.field("scheme", found=scheme, allowed=", ".join(sorted(RAILS)))
    rail, ours = RAILS[scheme], our_account(scheme)
    party.refresh_from_db(fields=["legal_name"])
    if not party.legal_name:
        raise Invalid.field("holder", found="", allowed=_("the company or legal name of an approved application"))
    rail.holder_check(party.legal_name, field="holder")
    checked = rail.account_check(account, field="account")
    if checked == ours.account:
        raise Invalid.field("account", found=masked(checked), allowed=_("an account of yours: this one is ours"))
    return _replace(party, now, rail=Rail.BANK, address=checked, scheme=scheme, holder=party.legal_name)


def _check_address(net: Network, address: str) -> None:
    try:
        address_check(address, ours=net.ours)
        destination_check(net.primary, address, mint=net.mint, ours=net.ours)
    except DestinationRefused as error:
        problem = PROBLEM_TEXTS[error.problem]
        raise Invalid(
            f"address: {address} {problem}.",
            code=f"address_{error.problem}",
            fields={"address": f"Found {address!r}, which {problem}; allowed: the address of a Solana wallet."},
        ) from error
    except RpcError as error:
        raise NetworkUnavailable(f"The chain gives no answer: {error}") from error


def _consume(party: Party, address: str, purpose: str, now: datetime) -> DestinationChallenge:
    """Committed by itself, so that a wrong answer cannot be tried again."""
    asked = DestinationChallenge.objects.filter(party=party, address=address, purpose=purpose)
    latest = asked.order_by("-created_at", "-pk").first()
    refused = Conflict("There is no open challenge for this address: ask for a new text and sign it.")
    if latest is None or latest.expires_at <= now:
        raise refused
    consumed = DestinationChallenge.objects.filter(pk=latest.pk, consumed_at__isnull=True).update(consumed_at=now)
    if consumed != 1:
        raise refused
    return latest


def _replace(
    party: Party,
    now: datetime,
    *,
    rail: str,
    address: str,
    scheme: str = "",
    holder: str = "",
    purpose: str = Purpose.PAYOUT,
) -> Destination:
    """One way for all rails: the old one is replaced, the new one cools down, and everybody concerned is told.

    A letter goes to whoever is, or was within a month, the party's contact. Its link stops payouts without a log-in.
    """
    usable_from = now + timedelta(seconds=policy_value("destination_cool_down_seconds", now))
    with transaction.atomic():
        lock_name(f"billing:destination:{party.pk}")
        if freeze_of(party) is not None:
            # Whoever stole the log-in would go on to a third wallet.
            raise Conflict(
                _("Your payouts are frozen, because somebody said that a change was not theirs. Write to us.")
            )
        active = Destination.objects.filter(party=party, purpose=purpose, state=Destination.State.ACTIVE).first()
        if active is not None and (active.rail, active.address, active.holder) == (rail, address, holder):
            return active
        if active is not None:
            DESTINATION.move(active, to=Destination.State.REPLACED, at=now, actor=f"party:{party.pk}")
        made = Destination.objects.create(
            party=party,
            purpose=purpose,
            rail=rail,
            address=address,
            scheme=scheme,
            holder=holder,
            usable_from=usable_from,
            created_at=now,
        )
        before = {"rail": active.rail, "to": destination_shown(active)} if active else {}
        after = {"purpose": made.purpose, "rail": rail, "to": destination_shown(made), "usable_from": usable_from}
        who = f"party:{party.pk}"
        audit_record(verb="destination_set", subject=made, actor=who, before=before, after=after, party=party, now=now)
        _tell(made, now)
    return made


def _tell(made: Destination, now: datetime) -> None:
    # A mail is read by many machines: of a bank account it says enough to recognise it.
    by_bank = made.rail == Rail.BANK
    context = {
        "address": masked(made.address) if by_bank else made.address,
        "usable_from": made.usable_from,
        "by_bank": by_bank,
    }
    kind, url = "destination_changed", "/provider/earnings/"
    if made.purpose == Purpose.WITHDRAWAL:
        kind, url = "withdrawal_wallet_changed", "/billing/withdrawals/"
    notification_send(
        kind=kind,
        context=context,
        party=made.party,
        url=url,
        secrets={"freeze_link": f"{settings.ORIGIN}/payout-freeze/{freeze_token(made, now=now)}/"},
        also_to=former_addresses(made.party, since=now - timedelta(days=LINK_DAYS)),
        now=now,
    )
