"""Pages in a real browser: granian serves a database of the module's own, Debian's Chromium looks at it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request, sync_playwright

from accounts.models import User
from tests import conftest as databases

CHROMIUM = Path("/usr/bin/chromium")
PHONE, DESKTOP = {"width": 360, "height": 780}, {"width": 1360, "height": 900}
START_SECONDS = 120

# Playwright's synchronous API keeps an event loop in this thread; our use of the ORM beside it is sequential.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"


@dataclass(frozen=True)
class Site:
    origin: str
    database: str


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _wait_until_up(origin: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(f"{origin}/healthz", timeout=1).close()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)  # the one wait there is: another process starts
        else:
            return
    raise RuntimeError(f"granian did not come up:\n{log.read_text()[-4000:]}")


@pytest.fixture(scope="module")
def site(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A running web server with a database of this module's own; this process is connected to the same one."""
    before = connections["default"].settings_dict["NAME"]
    name = f"gpunex_{uuid4().hex[:16]}"
    databases.clone_database(name)
    with django_db_blocker.unblock():
        databases._point_at(name)
        port, log = _free_port(), tmp_path_factory.mktemp("web") / "granian.log"
        command = [
            *(sys.executable, "-m", "granian", "--interface", "wsgi", "gpunex.wsgi:application"),
            *("--host", "127.0.0.1", "--port", str(port), "--workers", "1", "--blocking-threads", "4"),
        ]
        with log.open("wb") as out:
            server = subprocess.Popen(
                command,
                cwd=databases.ROOT,
                env=os.environ | {"ORIGIN": f"http://127.0.0.1:{port}"},
                stdout=out,
                stderr=out,
            )
        try:
            _wait_until_up(f"http://127.0.0.1:{port}", server, log)
            yield Site(f"http://127.0.0.1:{port}", name)
        finally:
            server.terminate()
            server.wait(60)
            connections.close_all()
            databases._point_at(before)
    databases.drop_database(name)


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Its event loop occupies this thread, so it ends with the module: other tests run loops of their own."""
    with sync_playwright() as found:
        yield found


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    found = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
    yield found
    found.close()


@dataclass
class Visit:
    """One browser window of one person; ``complaints`` collects what its console and network had to say."""

    page: Page
    origin: str
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("requestfailed", self._failed)

    def _failed(self, request: Request) -> None:
        # Going to the next page ends what the last one was still fetching: the browser's own doing.
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"failed: {request.url}: {request.failure}")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def open(self, path: str) -> int:
        answer = self.page.goto(self.origin + path, wait_until="load")
        assert answer is not None
        return answer.status


def session_cookie(user: User) -> str:
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value


@dataclass
class Windows:
    """Opens browser windows against the site; all are closed at the end of the test."""

    browser: Browser
    site: Site
    contexts: list[BrowserContext] = field(default_factory=list)

    def open(self, user: User | None = None, *, theme: str = "light", language: str = "en", **options: Any) -> Visit:
        context = self.browser.new_context(color_scheme=theme, locale=language, **{"viewport": DESKTOP, **options})
        self.contexts.append(context)
        cookies = {} if user is None else {"sessionid": session_cookie(user)}
        context.add_cookies([{"name": key, "value": value, "url": self.site.origin} for key, value in cookies.items()])
        return Visit(context.new_page(), self.site.origin)


@pytest.fixture
def windows(browser: Browser, site: Site) -> Iterator[Windows]:
    found = Windows(browser, site)
    yield found
    for context in found.contexts:
        context.close()
