"""Whole requests that no honest client sends: HTTP with two readings, bodies that only Go would like, logins that are more than
a login for one pull.

`{job}` is filled in by the test."""

import base64
import json
from typing import Any

from tests.agent.guard_requests import API, request

_GOOD = f"{API}/containers/json?all=1"
BYTES: dict[str, bytes] = {
    "two lengths": request("POST", f"{API}/volumes/create", None, "Content-Length: 2", "Content-Length: 200") + b"{}",
    "two equal lengths": request("POST", f"{API}/volumes/create", b"{}", "Content-Length: 2"),
    "chunked": request("POST", f"{API}/volumes/create", None, "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n",
    "length and chunked": request("POST", f"{API}/volumes/create", b"{}", "Transfer-Encoding: chunked"),
    "signed length": request("POST", f"{API}/volumes/create", None, "Content-Length: +2") + b"{}",
    "negative length": request("POST", f"{API}/volumes/create", None, "Content-Length: -1"),
    "list of lengths": request("POST", f"{API}/volumes/create", None, "Content-Length: 2, 2") + b"{}",
    "huge length": request("POST", f"{API}/volumes/create", None, "Content-Length: 999999999"),
    "large body": request("POST", f"{API}/volumes/create", b'{"Name": "' + b"x" * 100_000 + b'"}'),
    "a second request behind": request("GET", _GOOD) + request("POST", f"{API}/containers/prune"),
    "a body where none belongs": request("GET", _GOOD, b"{}"),
    "upgrade": request("GET", _GOOD, None, "Upgrade: tcp", "Connection: Upgrade"),
    "upgrade alone": request("GET", _GOOD, None, "Upgrade: h2c"),
    "connection upgrade alone": request("GET", _GOOD, None, "Connection: keep-alive, Upgrade"),
    "expect": request("GET", _GOOD, None, "Expect: 100-continue"),
    "registry config": request("GET", _GOOD, None, "X-Registry-Config: e30="),
    "method override": request("GET", _GOOD, None, "X-HTTP-Method-Override: DELETE"),
    "space before colon": request("GET", _GOOD, None, "Content-Length : 0"),
    "continued line": request("GET", _GOOD, None, "Accept: a", " b"),
    "header without colon": request("GET", _GOOD, None, "Accept"),
    "two hosts": request("GET", _GOOD, None, "Host: other"),
    "form body": request("POST", f"{API}/volumes/create", None, "Content-Type: application/x-www-form-urlencoded"),
    "bare line feeds": request("GET", _GOOD).replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n\n\r\n\r\n",
    "long head": request("GET", _GOOD, None, *(f"Accept: {'x' * 3000}" for _ in range(8))),
    "old HTTP": request("GET", _GOOD).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "new HTTP": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no HTTP": b"hello\r\n\r\n",
    "lower-case method": request("get", _GOOD),
    "tab in the line": request("GET", _GOOD).replace(b"GET ", b"GET\t", 1),
    "absolute form": request("GET", f"http://localhost{_GOOD}"),
    "connect": request("CONNECT", "localhost:80"),
    "asterisk": request("OPTIONS", "*"),
    "two slashes": request("GET", f"/{_GOOD}"),
    "two slashes inside": request("GET", f"{API}//containers/json"),
    "dots": request("GET", f"{API}/images/../containers/json"),
    "one dot": request("GET", f"{API}/./containers/json"),
    "encoded dots": request("GET", f"{API}/images/%2e%2e/containers/json"),
    "encoded slash": request("GET", f"{API}/images/..%2fcontainers/json"),
    "encoded letter": request("GET", f"{API}/%63ontainers/json"),
    "double encoding": request("GET", f"{API}/images/%252e%252e/json"),
    "fragment": request("GET", f"{_GOOD}#x"),
    "backslash": request("GET", f"{API}\\containers\\json"),
    "slash at the end": request("GET", f"{API}/containers/json/"),
    "zero byte": request("GET", f"{API}/containers/json\0"),
    "other bytes": request("GET", f"{API}/containers/j\xe9son"),
    "no version": request("GET", "/containers/json?all=1"),
    "ancient version": request("GET", "/v1.12/containers/json?all=1"),
    "old version": request("POST", "/v1.23/containers/{job}/start", b'{"Privileged":true}'),
    "future version": request("GET", "/v1.99/containers/json?all=1"),
    "padded version": request("GET", "/v1.041/containers/json?all=1"),
    "long version": request("GET", "/v1.41.0/containers/json?all=1"),
    "other major version": request("GET", "/v2.41/containers/json?all=1"),
    "capital version": request("GET", "/V1.41/containers/json?all=1"),
    "twice a parameter": request("DELETE", f"{API}/containers/{{job}}?v=1&v=0"),
    "parameter in two cases": request("DELETE", f"{API}/containers/{{job}}?v=1&V=0"),
    "semicolon": request("DELETE", f"{API}/containers/{{job}}?v=1;force=1"),
    "parameter without value": request("GET", f"{API}/containers/json?all"),
    "broken escape": request("GET", f"{API}/containers/json?all=%zz"),
    "empty body": request("POST", f"{API}/volumes/create", b""),
    "list body": request("POST", f"{API}/volumes/create", b"[]"),
    "null body": request("POST", f"{API}/volumes/create", b"null"),
    "two bodies": request("POST", f"{API}/volumes/create", b"{}{}"),
    "byte order mark": request("POST", f"{API}/volumes/create", b"\xef\xbb\xbf{}"),
    "no UTF-8": request("POST", f"{API}/volumes/create", b'{"Name":"\xff"}'),
    "half a surrogate": request("POST", f"{API}/volumes/create", b'{"Name":"\\ud800"}'),
    "not a number": request("POST", f"{API}/volumes/create", b'{"Name":NaN}'),
    "deep lists": request("POST", f"{API}/volumes/create", b'{"Name":' + b"[" * 8000 + b"]" * 8000 + b"}"),
    "deep objects": request(
        "POST",
        f"{API}/volumes/create",
        json.dumps({"Name": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {}}}}}}}}}).encode(),
    ),
    "comment": request("POST", f"{API}/volumes/create", b"{/**/}"),
}

# Logins. `hunter2` is in each of them, and nowhere afterwards.
_HUB = {"username": "ravi", "password": "hunter2", "serveraddress": "https://index.docker.io/v1/"}
_PULL = ("POST", f"{API}/images/create?fromImage=busybox&tag=1")


def _header(value: Any) -> str:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return f"X-Registry-Auth: {base64.urlsafe_b64encode(content).decode()}"


def _changed(**changes: Any) -> bytes:
    login = {name: value for name, value in (_HUB | changes).items() if value is not ...}
    return request(*_PULL, None, _header(login))


LOGINS: dict[str, bytes] = {
    "with a list": request("GET", _GOOD, None, _header(_HUB)),
    "with a start": request("POST", f"{API}/containers/{{job}}/start", None, _header(_HUB)),
    "with an inspection of an image": request("GET", f"{API}/images/busybox/json", None, _header(_HUB)),
    "with a question about another registry's image": request(
        "GET", f"{API}/distribution/ghcr.io/x/y%40sha256:{'0' * 64}/json", None, _header(_HUB)
    ),
    "with a volume": request("POST", f"{API}/volumes/create", b"{}", _header(_HUB)),
    "with a version": request("GET", "/version", None, _header(_HUB)),
    "with a push": request("POST", f"{API}/images/busybox/push", None, _header(_HUB)),
    "twice": request(*_PULL, None, _header(_HUB), _header(_HUB)),
    "for a registry that is not allowed": request(
        "POST",
        f"{API}/images/create?fromImage=registry.example/x&tag=1",
        None,
        _header(_HUB | {"serveraddress": "registry.example"}),
    ),
    "for another registry": _changed(serveraddress="ghcr.io"),
    "for the registry's other name": _changed(serveraddress="docker.io"),
    "for a longer address": _changed(serveraddress="https://index.docker.io/v1/@registry.example"),
    "for a list of registries": _changed(serveraddress=["https://index.docker.io/v1/"]),
    "for no registry": _changed(serveraddress=...),
    "for an empty registry": _changed(serveraddress=""),
    "identity token beside it": _changed(identitytoken="hunter2"),
    "identity token alone": request(*_PULL, None, _header({"identitytoken": "hunter2"})),
    "registry token": _changed(registrytoken="hunter2"),
    "auth": _changed(auth="aHVudGVyMg=="),
    "e-mail": _changed(email="hunter2@example.com"),
    "fields of another case": _changed(username=..., Username="ravi"),
    "without a name": _changed(username=...),
    "empty name": _changed(username=""),
    "name with a colon": _changed(username="ravi:x"),
    "name with a line break": _changed(username="ravi\r\nX: hunter2"),
    "long name": _changed(username="r" * 256),
    "name that is a number": _changed(username=7),
    "without a password": _changed(password=..., username="hunter2"),
    "empty password": _changed(password="", username="hunter2"),
    "null password": _changed(password=None, username="hunter2"),
    "password with a NUL": _changed(password="hunter2\0"),
    "password beyond ASCII": _changed(password="hunter2\u00e4"),
    "long password": _changed(password="hunter2" * 300),
    "password that is an object": _changed(password={"hunter2": "hunter2"}),
    "empty": request(*_PULL, None, "X-Registry-Auth: "),
    "no base64": request(*_PULL, None, "X-Registry-Auth: hunter2!"),
    "another alphabet": request(
        *_PULL, None, "X-Registry-Auth: " + base64.b64encode(b'{"hunter2":"\xfb\xff"}').decode()
    ),
    "no padding": request(*_PULL, None, _header(_HUB).rstrip("=")),
    "more padding": request(*_PULL, None, _header(_HUB) + "===="),
    "bits to spare": request(*_PULL, None, "X-Registry-Auth: e31="),
    "two values": request(*_PULL, None, f"{_header(_HUB)}, hunter2"),
    "plain JSON": request(*_PULL, None, f"X-Registry-Auth: {json.dumps(_HUB)}"),
    "no JSON": request(*_PULL, None, _header(b"hunter2")),
    "a list": request(*_PULL, None, _header([_HUB])),
    "null": request(*_PULL, None, _header(None)),
    "an empty object": request(*_PULL, None, "X-Registry-Auth: e30="),
    "no UTF-8": request(*_PULL, None, _header(b'{"username":"\xff","password":"hunter2"}')),
    "a field twice": request(*_PULL, None, _header(json.dumps(_HUB)[:-1].encode() + b',"Password":"hunter2"}')),
    "two objects": request(*_PULL, None, _header(json.dumps(_HUB).encode() * 2)),
    "oversize": request(*_PULL, None, _header(_HUB | {"x": "hunter2" * 1200})),
}
