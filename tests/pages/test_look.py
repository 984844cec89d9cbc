"""Every page, phone and desktop, light and dark: nothing in the console, nothing for axe to say, nothing sticking out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.pages import scene as scenes
from tests.pages.conftest import DESKTOP, PHONE, Site, Visit, Windows

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("pages")]  # one server for all of them
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
LOOKS = {
    "phone-light": (PHONE, "light"),
    "desktop-dark": (DESKTOP, "dark"),
    "phone-dark": (PHONE, "dark"),
    "desktop-light": (DESKTOP, "light"),
}
EVERYDAY = ("phone-light", "desktop-dark")
"""Both widths and both colours; the other two pairs are looked at in deep runs."""
SHOTS = os.environ.get("GPUNEX_SCREENSHOTS", "")
"""A folder to put a picture of every page into."""


@pytest.fixture(scope="module")
def scene(site: Site) -> Iterator[scenes.Scene]:
    return scenes.build()


def faults(visit: Visit) -> list[str]:
    """What is wrong with the page on screen, one line each."""
    found = list(visit.complaints)
    visit.complaints.clear()
    for violation in Axe().run(visit.page, options=RULES).response["violations"]:
        for node in violation["nodes"]:
            found.append(f"axe {violation['id']}: {violation['help']}: {node['html'][:160]}")
    wider = visit.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wider > 0:
        found.append(f"the page is {wider} px wider than the window")
    sideways = visit.page.evaluate(
        "innerWidth > 640 ? 0 : [...document.querySelectorAll('.table-responsive')]"
        ".filter(box => box.scrollWidth > box.clientWidth + 1).length"
    )
    if sideways:
        found.append(f"{sideways} tables scroll sideways on a phone")
    if visit.page.locator("h1").count() != 1:
        found.append(f"{visit.page.locator('h1').count()} level-one headings instead of one")
    return found


@pytest.mark.parametrize(
    "look", [pytest.param(look, marks=() if look in EVERYDAY else pytest.mark.deep) for look in LOOKS]
)
def test_every_page_is_clean(scene: scenes.Scene, windows: Windows, look: str) -> None:
    viewport, theme = LOOKS[look]
    wrong: list[str] = []
    for who, paths in scene.paths.items():
        visit = windows.open(scene.people.get(who), theme=theme, viewport=viewport)
        for path in paths:
            status = visit.open(path)
            if path == "/nowhere/":
                assert status == 404
                visit.complaints.clear()  # the browser notes the 404 itself
            elif status != 200:
                wrong.append(f"{who} {path}: {status}")
            if SHOTS:
                name = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "id", f"{who}{path}{look}.png".replace("/", "_"))
                visit.page.screenshot(path=Path(SHOTS) / name, full_page=True)
            wrong += [f"{who} {path}: {fault}" for fault in faults(visit)]
    assert not wrong, "\n".join(wrong)


def test_the_check_itself_finds_faults(scene: scenes.Scene, windows: Windows) -> None:
    visit = windows.open()
    visit.open("/roles/")
    visit.page.evaluate(
        """() => {
            document.querySelector('main').insertAdjacentHTML(
                'beforeend', '<h1>two</h1><img src="/static/img/mark.svg"><div style="width:4000px">wide</div>');
            console.error('planted');
        }"""
    )
    text = "\n".join(faults(visit))
    assert (
        "error: planted" in text and "axe image-alt" in text and "wider than the window" in text and "2 level" in text
    )


def test_the_colour_switch_works_with_a_script_and_without(scene: scenes.Scene, windows: Windows) -> None:
    for javascript in (True, False):
        visit = windows.open(java_script_enabled=javascript)
        visit.open("/roles/")
        before = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        visit.page.get_by_role("button", name="Dark").click()
        visit.page.wait_for_selector("html[data-bs-theme=dark]")
        assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") != before
        visit.open("/")  # and it stays
        assert visit.page.locator("html").get_attribute("data-bs-theme") == "dark"
        assert visit.complaints == []


def test_the_system_decides_until_the_switch_does(scene: scenes.Scene, windows: Windows) -> None:
    seen = {}
    for theme in ("light", "dark"):
        visit = windows.open(theme=theme)
        visit.open("/roles/")
        seen[theme] = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert seen["light"] != seen["dark"]


def test_the_language_switch_works_without_a_script(scene: scenes.Scene, windows: Windows) -> None:
    visit = windows.open(java_script_enabled=False)
    visit.open("/roles/")
    visit.page.get_by_role("button", name="简体中文").click()
    assert visit.page.url.endswith("/roles/") and visit.page.locator("html").get_attribute("lang") == "zh-hans"


def test_a_page_can_be_walked_by_keyboard(scene: scenes.Scene, windows: Windows) -> None:
    visit = windows.open(scene.people["ravi"])
    visit.open("/roles/")
    visit.page.keyboard.press("Tab")
    assert visit.page.evaluate("document.activeElement.textContent") == "Skip to content"
    visit.page.keyboard.press("Enter")
    assert visit.page.evaluate("document.activeElement.id") == "content"
    menu = visit.page.locator("details.menu > summary")
    menu.focus()
    visit.page.keyboard.press("Enter")
    assert visit.page.get_by_role("link", name="Account", exact=True).is_visible()
    visit.page.keyboard.press("Escape")
    assert not visit.page.get_by_role("link", name="Account", exact=True).is_visible()
