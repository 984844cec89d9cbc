"""Who is there and what they offer: the demo's facts, without code.

Asking prices have the shape of what public marketplaces showed in 2025 and 2026 (USD per GPU-hour); they are not quotes.
"""

from __future__ import annotations

from dataclasses import dataclass

PRICES: dict[str, tuple[str, str, str]] = {
    # catalogue slug: (low, typical, high)
    "h100-sxm-80gb": ("1.75", "2.10", "4.69"),
    "h100-pcie-80gb": ("1.29", "2.24", "4.49"),
    "a100-sxm-80gb": ("1.12", "1.49", "2.29"),
    "a100-pcie-80gb": ("0.87", "1.39", "1.79"),
    "a100-pcie-40gb": ("0.76", "0.80", "1.10"),
    "l40s-48gb": ("0.38", "0.60", "1.20"),
    "l4-24gb": ("0.30", "0.44", "0.60"),
    "rtx-4090-24gb": ("0.28", "0.40", "0.69"),
    "rtx-a6000-48gb": ("0.42", "0.49", "0.79"),
}


@dataclass(frozen=True)
class DemoMachine:
    """One simulated host: ``gpus`` cards of one catalogue model."""

    model: str
    gpus: int
    memory_gb: int
    gbps: str
    share: float = 1.0
    """What its cards measure, of what a healthy card of the model does."""


@dataclass(frozen=True)
class DemoProvider:
    """``price``: where between low (0), typical (1) and high (2) the provider asks. ``spare``: approved, not yet there."""

    handle: str
    name: str
    company: str
    city: str
    country: str
    datacenter: str
    ups: str
    commitment_months: int
    tier: str
    price: float
    machines: tuple[DemoMachine, ...]
    spare: int = 0


def _home(
    handle: str, name: str, city: str, country: str, price: float, *machines: DemoMachine, months: int = 0
) -> DemoProvider:
    return DemoProvider(handle, name, "", city, country, "", "none", months, "community", price, machines)


def _hall(
    handle: str, name: str, company: str, place: tuple[str, str, str], price: float, *machines: DemoMachine, months: int
) -> DemoProvider:
    city, country, datacenter = place
    return DemoProvider(handle, name, company, city, country, datacenter, "all", months, "enterprise", price, machines)


ADA = DemoProvider(
    handle="ada-compute",
    name="Ada Okafor",
    company="Ada Compute Ltd",
    city="London",
    country="GB",
    datacenter="London Docklands",
    ups="all",
    commitment_months=6,
    tier="enterprise",
    price=0.9,
    machines=(DemoMachine("rtx-4090-24gb", 2, 128, "1"), DemoMachine("l4-24gb", 1, 64, "1")),
    spare=2,
)

OTHERS = (
    _hall(
        "fjord-gpu",
        "Ingrid Solberg",
        "Fjord GPU AS",
        ("Stavanger", "NO", "Green Mountain"),
        1.1,
        DemoMachine("h100-sxm-80gb", 8, 2048, "10"),
        DemoMachine("a100-sxm-80gb", 4, 1024, "10"),
        months=12,
    ),
    _hall(
        "prairie-compute",
        "Walter Jensen",
        "Prairie Compute LLC",
        ("Des Moines", "US", "Iowa West"),
        0.8,
        DemoMachine("h100-pcie-80gb", 4, 1024, "10"),
        months=12,
    ),
    _hall(
        "kanto-render",
        "Haruka Mori",
        "Kanto Render KK",
        ("Tokyo", "JP", "Inzai"),
        1.3,
        DemoMachine("l40s-48gb", 4, 512, "5"),
        months=6,
    ),
    _hall(
        "rheinwerk",
        "Jonas Weber",
        "Rheinwerk GmbH",
        ("Frankfurt", "DE", "Frankfurt West"),
        1.0,
        DemoMachine("a100-pcie-80gb", 2, 512, "10"),
        months=6,
    ),
    _home("saoluis", "Beatriz Lima", "São Paulo", "BR", 0.7, DemoMachine("rtx-4090-24gb", 1, 64, "0.6")),
    _home("tallinn-node", "Kristjan Tamm", "Tallinn", "EE", 0.5, DemoMachine("rtx-a6000-48gb", 2, 128, "1"), months=3),
    _home("maple-4090", "Chloé Tremblay", "Montréal", "CA", 0.9, DemoMachine("rtx-4090-24gb", 4, 256, "2"), months=3),
    _home("bengaluru-l4", "Meera Iyer", "Bengaluru", "IN", 0.4, DemoMachine("l4-24gb", 2, 96, "1")),
    _home("wellington-gpu", "Hemi Walker", "Wellington", "NZ", 1.2, DemoMachine("rtx-4090-24gb", 1, 64, "0.9")),
    _home("lisboa-lab", "Duarte Reis", "Lisbon", "PT", 0.6, DemoMachine("a100-pcie-40gb", 1, 256, "1"), months=6),
    _home("nairobi-compute", "Wanjiru Kamau", "Nairobi", "KE", 0.8, DemoMachine("rtx-4090-24gb", 1, 64, "0.5")),
    _home("warszawa-rig", "Piotr Zieliński", "Warsaw", "PL", 0.3, DemoMachine("rtx-4090-24gb", 2, 128, "1")),
    # Too hot: its cards throttle far below the minimum, so that it stays out of the market, and its page says why.
    _home(
        "sofia-garage", "Elena Dimitrova", "Sofia", "BG", 0.4, DemoMachine("rtx-4090-24gb", 2, 64, "0.7", share=0.55)
    ),
)


@dataclass(frozen=True)
class Applicant:
    """Who waits in the review queue: ``provider`` as the application says, handed in ``hours`` ago."""

    provider: DemoProvider
    hours: int
    note: str = ""
    other_model: str = ""
    """A model that is not of the catalogue, offered besides."""


APPLICANTS = (
    Applicant(
        _hall(
            "nordlys-compute",
            "Astrid Haugen",
            "Nordlys Compute AB",
            ("Luleå", "SE", "Node Pole 2"),
            1.0,
            DemoMachine("h100-sxm-80gb", 16, 2048, "25"),
            DemoMachine("l40s-48gb", 8, 1024, "10"),
            months=12,
        ),
        hours=27,
        note="First Tuesday of the month, 02:00 to 04:00 local time.",
    ),
    Applicant(
        _home("attic-rig", "Tomás Pereira", "Porto", "PT", 0.5, DemoMachine("rtx-4090-24gb", 3, 128, "0.8"), months=3),
        hours=4,
        other_model="NVIDIA Tesla K80",
    ),
)
"""The rules propose enterprise for the first and warn of the second: no UPS, and a card that we do not take."""
