"""How a machine stands, in plain sentences: what is the matter, and what its owner does next. Pure: facts in, words out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from agent_protocol.reasons import DEGRADATIONS
from marketplace.visibility import SENTENCES

GOOD, WARN, BAD, IDLE = "good", "warn", "bad", "idle"
BENCHMARKS, PRICING = "benchmarks_benchmarks", "marketplace_pricing"


PAGES = {BENCHMARKS: _("Benchmarks"), PRICING: _("Pricing")}


@dataclass(frozen=True)
class Facts:
    """What is known of one machine.

    health: online | suspect | offline | never. together: how many other machines of the owner went silent within two
    minutes of it. jobs: customers' jobs on it now. cards: reasons (providers.models.Gpu.Reason) of cards not on offer.
    hidden: why its listings are hidden; opens_at: when the earliest of them opens by itself.
    """

    status: str
    status_reason: str
    health: str
    last_seen_at: datetime | None
    degraded: Sequence[str] = ()
    together: int = 0
    jobs: int = 0
    cards: Sequence[str] = ()
    hidden: Sequence[str] = ()
    listed: int = 0


@dataclass(frozen=True)
class Standing:
    """One thing to know. ``next``: what to do, empty where there is nothing. ``url_name``: where it is done, if here."""

    tone: str
    what: str
    next: str = ""
    url_name: str = ""

    @property
    def page(self) -> str:
        """What the page behind ``url_name`` is called."""
        return str(PAGES[self.url_name])


ON_THE_HOST = _(
    "On the machine, “docker ps” must show gpunex-agent as Up; “docker logs gpunex-agent” says what it lacks."
)
JOINS_AGAIN = _("To bring the machine back, run the install command on it again: it joins as a new machine.")

REMEDIES: dict[str, str | Promise] = {
    "nvml_missing": _("Install the NVIDIA driver; the library comes with it."),
    "nvml_mismatch": _("Drain the machine, wait for its jobs to end, and reboot it."),
    "nvml_timeout": _("If it lasts for minutes, reboot the machine; “dmesg” names the card at fault."),
    "nvml_failed": _("Run “nvidia-smi” on the machine: it names the error. A reboot often mends it."),
    "driver_disagrees": _("Reboot the machine, so that driver and library are the same again."),
    "engine_unavailable": _("Start Docker again: “systemctl restart docker”."),
    "disk_low": _("Free some space: “docker image prune” removes images that nothing uses."),
    "upgrade_required": _("Run the install command again; running jobs survive it."),
}
"""What mends a degradation (agent_protocol.reasons.DEGRADATIONS); the machine takes jobs again by itself then."""

CARDS: dict[str, tuple[str | Promise, str | Promise]] = {
    "foreign_process": (
        _("A process that is not ours uses a GPU, so it is not offered."),
        _("“nvidia-smi” on the machine shows it. End it; the GPU is offered again by itself."),
    ),
    "memory_held": (
        _("Memory of a GPU is in use although no job runs on it, so it is not offered."),
        _("“nvidia-smi” shows what holds it. If nothing does, reboot the machine when it is drained."),
    ),
    "lost": (
        _("A card fell off the bus."),
        _("Reboot the machine. If it happens again, reseat the card or check its power."),
    ),
    "error": (_("A card reports an error."), _("“dmesg” says which. Reboot; if it comes back, the card needs repair.")),
    "gone": (
        _("A card is no longer in the machine."),
        _("Nothing, if you took it out. Else check its seat and its power."),
    ),
    "mig": (_("MIG is on; only whole cards are offered."), _("Turn it off: “nvidia-smi -mig 0”, then reboot.")),
    "memory_unknown": (
        _("The memory of a card could not be read."),
        _("Reboot the machine; if it stays so, update the driver."),
    ),
}
"""What an owner can do about a card; everything else about cards waits for the operator."""

HIDDEN: dict[str, tuple[str, str | Promise, str]] = {
    "provider_suspended": (BAD, _("Write to the operator; running jobs finish."), ""),
    "provider_closed": (BAD, "", ""),
    "gpu_needs_review": (WARN, _("Nothing: the operator looks at it."), ""),
    "gpu_unavailable": (BAD, "", ""),
    "benchmark_missing": (
        WARN,
        _("Nothing: it starts when the GPU is free and takes minutes."),
        BENCHMARKS,
    ),
    "benchmark_in_review": (WARN, _("Nothing: you hear from us."), BENCHMARKS),
    "benchmark_below_minimum": (
        BAD,
        _("See which figure is low and what mends it; then retest."),
        BENCHMARKS,
    ),
    "no_rate": (WARN, _("Set one on the pricing page."), PRICING),
    "outside_schedule": (IDLE, _("Nothing: it opens by itself. You can change the hours."), PRICING),
}
"""Tone, next step and page per hidden reason. What a machine's status or health says better is said there."""


def standings(facts: Facts) -> list[Standing]:
    """Everything to know about a machine: its own status, then what keeps most money away; never empty."""
    first = list(_status(facts))
    if facts.status in ("retired", "revoked"):
        return first
    found = [*_health(facts), *_degraded(facts), *_cards(facts)]
    if facts.health == "online":  # a listing of a machine that is away says no more than that it is away
        found += _hidden(facts)
    if not first and not found:
        return [Standing(GOOD, gettext("Online and on offer.") if facts.listed else gettext("Online."))]
    order = (BAD, WARN, IDLE, GOOD)
    return first + sorted(found, key=lambda each: order.index(each.tone))


def _status(facts: Facts) -> Iterator[Standing]:
    made = _STATUS.get(facts.status)
    if made is not None:
        yield made(facts)


def _draining(facts: Facts) -> Standing:
    if not facts.jobs:
        return Standing(
            IDLE,
            gettext("You are draining it, and no job runs on it any more."),
            gettext("Work on it now; “Resume” takes jobs again."),
        )
    what = ngettext(
        "You are draining it; %(count)d job still runs on it.",
        "You are draining it; %(count)d jobs still run on it.",
        facts.jobs,
    )
    return Standing(IDLE, what % {"count": facts.jobs}, gettext("Wait until they have ended, or resume."))


def _quarantined(facts: Facts) -> Standing:
    if facts.status_reason == "two_sessions":
        return Standing(
            BAD,
            gettext("Two computers use this machine's identity, so it takes no new jobs."),
            gettext("Stop the agent on the copy; the operator then lets the machine back in."),
        )
    return Standing(BAD, str(SENTENCES["machine_quarantined"]), gettext("Running jobs finish; you hear from us."))


_STATUS: dict[str, Callable[[Facts], Standing]] = {
    "pending_confirmation": lambda _facts: Standing(
        WARN,
        gettext("Nobody has confirmed yet that this machine is yours; it takes no jobs."),
        gettext("If you connected it, confirm it on its page. If not, retire it there."),
    ),
    "draining": _draining,
    "quarantined": _quarantined,
    "retired": lambda _facts: Standing(
        IDLE, gettext("It is retired; its credential opens nothing any more."), str(JOINS_AGAIN)
    ),
    "revoked": lambda _facts: Standing(BAD, gettext("Its credential was revoked."), str(JOINS_AGAIN)),
}


def _health(facts: Facts) -> Iterator[Standing]:
    if facts.health == "never":
        yield Standing(WARN, gettext("It has not been heard from yet."), str(ON_THE_HOST))
    elif facts.health == "suspect":
        yield Standing(
            WARN,
            gettext("It has not been heard from for a moment and takes no new jobs."),
            gettext("Nothing yet: with its next heartbeat it is back, after 90 seconds of silence it is offline."),
        )
    elif facts.health == "offline" and facts.together:
        what = ngettext(
            "Offline, and within two minutes so was %(count)d other machine of yours.",
            "Offline, and within two minutes so were %(count)d other machines of yours.",
            facts.together,
        )
        yield Standing(
            BAD,
            what % {"count": facts.together},
            gettext("Look at what they share: the site's power, router or uplink."),
        )
    elif facts.health == "offline":
        yield Standing(
            BAD,
            gettext("Offline: no heartbeat has come since, and no other machine of yours went silent with it."),
            gettext("Check its power and network.") + " " + str(ON_THE_HOST),
        )


def _degraded(facts: Facts) -> Iterator[Standing]:
    for code in facts.degraded:
        what = gettext(DEGRADATIONS[code]) if code in DEGRADATIONS else code
        if facts.health == "offline":
            what = gettext("Before the silence it said: %(problem)s") % {"problem": what}
        yield Standing(BAD, what, str(REMEDIES.get(code, "")))


def _cards(facts: Facts) -> Iterator[Standing]:
    for reason in dict.fromkeys(facts.cards):
        if reason in CARDS:
            what, remedy = CARDS[reason]
            yield Standing(BAD, str(what), str(remedy))


def _hidden(facts: Facts) -> Iterator[Standing]:
    for reason in dict.fromkeys(facts.hidden):
        if reason in HIDDEN and not (reason == "gpu_unavailable" and any(card in CARDS for card in facts.cards)):
            tone, following, url_name = HIDDEN[reason]
            yield Standing(tone, str(SENTENCES[reason]), str(following), url_name)
