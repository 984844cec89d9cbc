"""The apps from low to high, read from the layers contract, so that there is one list."""

from __future__ import annotations

import configparser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIGURATION = ROOT / ".importlinter"


def contracts() -> dict[str, configparser.SectionProxy]:
    parser = configparser.ConfigParser()
    parser.read(CONFIGURATION)
    prefix = "importlinter:contract:"
    return {name.removeprefix(prefix): parser[name] for name in parser.sections() if name.startswith(prefix)}


def root_packages() -> list[str]:
    parser = configparser.ConfigParser()
    parser.read(CONFIGURATION)
    return parser["importlinter"]["root_packages"].split()


def apps_low_to_high() -> list[str]:
    return contracts()["apps"]["layers"].split()[::-1]


def rank(app: str) -> int:
    return apps_low_to_high().index(app)
