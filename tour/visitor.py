"""A person with a browser: pages, forms with their hidden fields, cookies, and the JSON API in the same session."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

import httpx

Values = dict[str, list[str]]


class NotSeen(Exception):
    """The tour expected something and saw something else."""


@dataclass
class Form:
    """One form of a page with what it would send untouched. ``buttons``: name → values of its named buttons."""

    action: str
    method: str
    values: Values = field(default_factory=dict)
    buttons: Values = field(default_factory=dict)


class _Reader(HTMLParser):
    """Collects forms, links, ids and visible text of a page."""

    SILENT = ("script", "style", "template")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.by_id: dict[str, str] = {}
        self._form: Form | None = None
        self._select: str | None = None
        self._textarea: str | None = None
        self._silent = 0
        self._ids: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in self.SILENT:
            self._silent += 1
        if given.get("id") and tag in ("code", "pre", "div", "p", "span"):
            self._ids.append((tag, given["id"]))
            self.by_id[given["id"]] = ""
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag == "form":
            self._form = Form(given.get("action", ""), given.get("method", "get").lower())
            self.forms.append(self._form)
        if self._form is not None:
            self._field(tag, given)

    def _field(self, tag: str, given: dict[str, str]) -> None:
        assert self._form is not None
        name = given.get("name", "")
        if tag == "input" and name:
            kind = given.get("type", "text")
            if kind in ("checkbox", "radio"):
                if "checked" in given:
                    self._form.values.setdefault(name, []).append(given.get("value", "on"))
            elif kind not in ("submit", "button", "image", "file"):
                self._form.values.setdefault(name, []).append(given.get("value", ""))
        elif tag == "button" and name:
            self._form.buttons.setdefault(name, []).append(given.get("value", ""))
        elif tag == "select" and name:
            self._select = name
        elif tag == "option" and self._select and "selected" in given:
            self._form.values.setdefault(self._select, []).append(given.get("value", ""))
        elif tag == "textarea" and name:
            self._textarea = name
            self._form.values.setdefault(name, []).append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.SILENT:
            self._silent -= 1
        if self._ids and self._ids[-1][0] == tag:
            self._ids.pop()
        if tag == "form":
            self._form = None
        elif tag == "select":
            self._select = None
        elif tag == "textarea":
            self._textarea = None

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if self._textarea and self._form is not None:
            self._form.values[self._textarea][-1] += data
        for _tag, name in self._ids:
            self.by_id[name] += data
        self.texts.append(data)


class Page:
    """What came back for one address."""

    def __init__(self, response: httpx.Response) -> None:
        self.url, self.status = str(response.url), response.status_code
        reader = _Reader()
        reader.feed(response.text)
        self.forms, self.links, self.by_id = reader.forms, reader.links, reader.by_id
        self.text = " ".join(" ".join(reader.texts).split())

    def shows(self, *texts: str) -> Page:
        """Itself, if every text is visible. Raises NotSeen."""
        for text in texts:
            if text not in self.text:
                raise NotSeen(f"{self.url} does not show {text!r}; it says: {self.text[:600]}")
        return self

    def form(self, having: str) -> Form:
        """The form with a field or button of that name. Raises NotSeen."""
        for form in self.forms:
            if having in form.values or having in form.buttons:
                return form
        raise NotSeen(f"{self.url} has no form with {having!r}; it says: {self.text[:600]}")

    def link(self, containing: str) -> str:
        for link in self.links:
            if containing in link:
                return link
        raise NotSeen(f"{self.url} has no link with {containing!r}")


REAUTHENTICATE = "/account/reauthenticate/"


class Visitor:
    """One person's session."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.http = httpx.Client(base_url=self.url, follow_redirects=True, timeout=60, trust_env=False)
        self._password = ""

    def get(self, path: str, *, status: int = 200) -> Page:
        page = Page(self.http.get(path))
        if page.status != status:
            raise NotSeen(f"{path} answered {page.status}, not {status}: {page.text[:600]}")
        return page

    def submit(self, page: Page, form: Form, button: tuple[str, str] | None = None, **values: str | list[str]) -> Page:
        """Send a form with some values changed; whoever is asked to confirm who they are gives their password, and the site
        goes on. Raises NotSeen when the site refuses it.
        """
        sent: Values = dict(form.values)
        for name, value in values.items():
            sent[name] = value if isinstance(value, list) else [value]
        if button is not None:
            sent[button[0]] = [button[1]]
        target = urljoin(page.url, form.action or page.url)
        answer = self.http.request(form.method.upper(), target, data=sent, headers={"Referer": page.url})
        found = Page(answer)
        if found.status >= 400:
            raise NotSeen(f"{target} answered {found.status}: {found.text[:800]}")
        if REAUTHENTICATE in found.url and REAUTHENTICATE not in page.url:
            return self.submit(found, found.form("password"), password=self._password)
        return found

    def log_in(self, email: str, password: str) -> Page:
        page = self.get("/account/login/")
        inside = self.submit(page, page.form("login"), login=email, password=password)
        if "/account/login" in inside.url:
            raise NotSeen(f"{email} cannot log in: {inside.text[:400]}")
        self._password = password
        return inside

    def api(self, path: str, **query: str) -> Any:
        answer = self.http.get(f"/api/v1/{path}", params=query)
        if answer.status_code != 200:
            raise NotSeen(f"/api/v1/{path} answered {answer.status_code}: {answer.text[:400]}")
        return answer.json()
