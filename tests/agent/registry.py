"""A container registry on the loopback that holds one busybox image, and what is put into it, and fails on request."""

import base64
import gzip
import hashlib
import io
import json
import shutil
import tarfile
import threading
from functools import lru_cache
from typing import Any

from tests.agent.serving import DoubleHandler, DoubleServer

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
APPLETS = ("sh", "id", "env", "cat", "ls", "mount", "sleep", "touch", "grep", "head", "tail", "printf", "test", "ps")


def _error(code: str, message: str = "") -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message or code.lower()}]}).encode()


# Repositories that answer with a failure: what the registry says, as (status, body).
FAILURES = {
    "missing": (404, _error("MANIFEST_UNKNOWN")),
    "private": (401, _error("UNAUTHORIZED")),
    "limited": (429, _error("TOOMANYREQUESTS")),
    "limited-hub": (429, _error("TOOMANYREQUESTS", "You have reached your unauthenticated pull rate limit.")),
    "limited-page": (429, b"<html><body>Slow down, please.</body></html>"),
    "limited-silent": (429, b""),
    "limited-details": (429, b'{"details": "slow down"}'),
    "broken": (503, _error("UNAVAILABLE")),
    "broken-page": (502, b"<html><body>Bad Gateway</body></html>"),
    "broken-silent": (500, b""),
}


class FakeRegistry:
    """`busybox:1` is good; its image asks for all GPUs, preloads a library, declares a volume, has a health check and labels
    that programs on the host might listen to, as a hostile one may.

    `login`: user name and password without which it shows nothing; asked for with each request, or, with `tokens`, once at
    a place of its own. `seen` is every request's path and Authorization. `token_status`: what that place answers instead.
    """

    def __init__(self, *, login: tuple[str, str] | None = None, tokens: bool = False) -> None:
        self.login, self.tokens = login, tokens
        self.token_status: int | None = None
        self.seen: list[tuple[str, str | None]] = []
        self.closing = threading.Event()
        self.blobs: dict[str, bytes] = {}
        self.digest = self.put(
            _layer(),
            {
                "Env": [
                    "PATH=/bin",
                    "NVIDIA_VISIBLE_DEVICES=all",
                    "NVIDIA_REQUIRE_CUDA=cuda>=99",
                    "LD_PRELOAD=/evil.so",
                    "LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
                    "KEPT=yes",
                ],
                "Volumes": {"/declared": {}},
                "Labels": {"gpunex.guard": "1", "traefik.enable": "true"},
                "Healthcheck": {"Test": ["CMD", "true"], "Interval": 1_000_000_000},
            },
        )
        self.manifest = self.blobs[self.digest]
        registry = self

        class Handler(_Handler):
            owner = registry

        self._server = DoubleServer(Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def opens(self, authorization: str | None) -> bool:
        """Whether this header, of HTTP's Basic scheme, holds the right login."""
        assert self.login is not None
        return authorization == "Basic " + base64.b64encode(":".join(self.login).encode()).decode()

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def put(self, layer: bytes, config: dict[str, Any]) -> str:
        """An image of one layer, a tar archive; its digest, good under every name."""
        packed = _packed(layer)
        described = {"architecture": "amd64", "os": "linux", "config": config}
        described["rootfs"] = {"type": "layers", "diff_ids": [_digest(layer)]}
        content = json.dumps(described).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {
                "mediaType": "application/vnd.docker.container.image.v1+json",
                "size": len(content),
                "digest": self._put(content),
            },
            "layers": [
                {
                    "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                    "size": len(packed),
                    "digest": self._put(packed),
                }
            ],
        }
        return self._put(json.dumps(manifest).encode())

    def _put(self, blob: bytes) -> str:
        self.blobs[_digest(blob)] = blob
        return _digest(blob)


class _Handler(DoubleHandler):
    owner: FakeRegistry

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        self.owner.seen.append((self.path, self.headers["Authorization"]))
        if parts == ["token"]:
            return self._token()
        if not self._let_in():
            return self._answer(401, _error("UNAUTHORIZED"), "application/json", challenge=True)
        if parts == ["v2"]:
            return self._answer(200, b"{}", "application/json")
        repository, kind, reference = parts[1], parts[-2], parts[-1]
        if repository == "hanging":
            self.owner.closing.wait()
        if repository in FAILURES:
            status, body = FAILURES[repository]
            return self._answer(status, body, "text/html" if body.startswith(b"<") else "application/json")
        if kind == "manifests" and reference in ("1", *self.owner.blobs):
            digest = self.owner.digest if reference == "1" else reference
            return self._answer(200, self.owner.blobs[digest], MANIFEST, digest)
        if kind == "blobs" and reference in self.owner.blobs:
            return self._answer(200, self.owner.blobs[reference], "application/octet-stream", reference)
        return self._answer(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}', "application/json")

    def _let_in(self) -> bool:
        given = self.headers["Authorization"]
        if self.owner.login is None:
            return True
        return given == "Bearer good-token" if self.owner.tokens else self.owner.opens(given)

    def _token(self) -> None:
        if self.owner.token_status is not None:
            return self._answer(self.owner.token_status, b"<html></html>", "text/html")
        if not self.owner.opens(self.headers["Authorization"]):
            return self._answer(401, b'{"details": "incorrect username or password"}', "application/json")
        return self._answer(200, b'{"token": "good-token"}', "application/json")

    def _answer(
        self, status: int, body: bytes, kind: str, digest: str | None = None, *, challenge: bool = False
    ) -> None:
        self.send_response(status)
        if challenge:
            how = (
                f'Bearer realm="http://{self.owner.name}/token",service="fake"'
                if self.owner.tokens
                else 'Basic realm="r"'
            )
            self.send_header("WWW-Authenticate", how)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        if digest is not None:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def _layer() -> bytes:
    """A root file system with a static busybox and its names."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for folder in ("bin", "etc", "tmp", "declared"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder in ("tmp", "declared") else 0o755
            archive.addfile(entry)
        archive.add(busybox, "bin/busybox")
        for applet in APPLETS:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return buffer.getvalue()


@lru_cache(maxsize=4)
def _packed(layer: bytes) -> bytes:
    return gzip.compress(layer, 1)


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()
