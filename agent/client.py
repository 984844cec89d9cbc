"""The agent's side of the HTTP conversation: one client, every failure sorted into the few kinds that matter."""

import statistics
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from agent.config import is_loopback
from agent_protocol.errors import ProtocolError
from agent_protocol.fields import MAX_BODY_BYTES, Message, json_read, json_write
from agent_protocol.messages import (
    NONCE_HEADER,
    AttemptSecrets,
    BenchCommit,
    BenchCommitted,
    BenchDownload,
    BenchOpen,
    BenchOpened,
    BenchStart,
    BenchStarted,
    BenchUploaded,
    CredentialReply,
    CredentialRequest,
    EnrolReply,
    EnrolRequest,
    EventBatch,
    EventsReply,
    LogChunk,
    LogReply,
    RefusalReply,
    SecretsRequest,
    SyncReply,
    SyncRequest,
)
from agent_protocol.version import AGENT_VERSION

_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
# The doorbell sends a comment at least every half minute; three missed ones mean a dead connection.
_BELL_TIMEOUT = httpx.Timeout(10.0, read=95.0)
_MAX_REDIRECTS = 2
_ROUND_TRIPS = 20
_MAX_BELL_LINE = 4096

Reply = TypeVar("Reply", bound=Message)


class ClientError(Exception):
    """A request that brought no usable answer."""


class Unreachable(ClientError):
    """No answer, a 5xx, or an answer that is not the protocol: try again later, with the same request."""


class Refused(ClientError):
    """The platform answered no. `code` is its word for why."""

    def __init__(self, status: int, reply: RefusalReply) -> None:
        super().__init__(f"{status} {reply.code}")
        self.status = status
        self.code = reply.code
        self.message = reply.message
        self.next_offset = reply.next_offset


class Unauthorized(Refused):
    """401: this credential opens nothing (any more)."""

    @property
    def revoked(self) -> bool:
        return self.code == "revoked"


class UpgradeRequired(Refused):
    """426: the platform speaks to newer agents only."""


class SlowDown(Unreachable):
    """429: not before `retry_after_s`."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"429, retry after {retry_after_s} s")
        self.retry_after_s = retry_after_s


class PlatformClient:
    """Thread-safe. `credential` is set once the identity is known."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._credential: str | None = None
        self._round_trips: deque[float] = deque(maxlen=_ROUND_TRIPS)
        # On the loopback a proxy from the environment would only be in the way.
        self._http = httpx.Client(
            timeout=_TIMEOUT,
            follow_redirects=False,
            trust_env=not is_loopback(url),
            headers={"User-Agent": f"gpunex-agent/{AGENT_VERSION}"},
        )

    def authorize(self, credential: str) -> None:
        self._credential = credential

    def close(self) -> None:
        self._http.close()

    def enrol(self, request: EnrolRequest) -> EnrolReply:
        return self._read(EnrolReply, self._post("/agent/v1/enrol", request.to_dict(), authorized=False))

    def credential(self, request: CredentialRequest) -> CredentialReply:
        return self._read(CredentialReply, self._post("/agent/v1/credential", request.to_dict()))

    def sync(self, request: SyncRequest) -> SyncReply:
        started = time.monotonic()
        answer = self._post("/agent/v1/sync", request.to_dict())
        self._round_trips.append(1000 * (time.monotonic() - started))
        return self._read(SyncReply, answer)

    def latency_ms(self) -> float | None:
        """Median of the last syncs, the platform's own work included; null before the first."""
        return statistics.median(self._round_trips) if self._round_trips else None

    def events(self, batch: EventBatch) -> EventsReply:
        return self._read(EventsReply, self._post("/agent/v1/events", batch.to_dict()))

    def logs(self, attempt_id: str, chunk: LogChunk) -> LogReply:
        return self._read(LogReply, self._post(f"/agent/v1/attempts/{attempt_id}/logs", chunk.to_dict()))

    def secrets(self, attempt_id: str, request: SecretsRequest) -> AttemptSecrets:
        """Answered once: an answer that is lost on the way does not come again."""
        return self._read(AttemptSecrets, self._post(f"/agent/v1/attempts/{attempt_id}/secrets", request.to_dict()))

    def bench_start(self, run_id: str, start: BenchStart) -> BenchStarted:
        return self._read(BenchStarted, self._post(f"/agent/v1/bench/{run_id}/start", start.to_dict()))

    def bench_commit(self, run_id: str, commit: BenchCommit) -> BenchCommitted:
        return self._read(BenchCommitted, self._post(f"/agent/v1/bench/{run_id}/commit", commit.to_dict()))

    def bench_open(self, run_id: str, opening: BenchOpen) -> BenchOpened:
        return self._read(BenchOpened, self._post(f"/agent/v1/bench/{run_id}/open", opening.to_dict()))

    def bench_download(self, run_id: str, wanted: BenchDownload) -> int:
        """How many of the bytes arrived."""
        received = 0
        with self._bench_stream(
            f"/agent/v1/bench/{run_id}/download",
            json_write(wanted.to_dict()),
            {"Content-Type": "application/json"},
        ) as response:
            for part in response.iter_raw():
                received += len(part)
        return received

    def bench_upload(self, run_id: str, nonce: str, content: bytes) -> int:
        """How many of the bytes arrived there."""
        headers = {"Content-Type": "application/octet-stream", NONCE_HEADER: nonce}
        with self._bench_stream(f"/agent/v1/bench/{run_id}/upload", content, headers) as response:
            answer = _bounded_body(response)
        try:
            return BenchUploaded.parse(json_read(answer)).received_bytes
        except ProtocolError as error:
            raise Unreachable(f"the answer is not the protocol: {error}") from None

    @contextmanager
    def _bench_stream(self, path: str, content: bytes, headers: dict[str, str]) -> Iterator[httpx.Response]:
        headers["Authorization"] = f"Bearer {self._credential}"
        try:
            with self._http.stream("POST", self._url + path, content=content, headers=headers) as response:
                if response.status_code != 200:
                    raise _failure(response.status_code, _bounded_body(response), response.headers.get("retry-after"))
                yield response
        except httpx.HTTPError as error:
            raise Unreachable(type(error).__name__) from None

    @contextmanager
    def bell(self, path: str, ticket: str) -> Iterator[Iterator[str]]:
        """Lines of the doorbell's event stream, after at most two redirects; ends when the stream ends."""
        url = f"{self._url}{path}"
        params: dict[str, str] | None = {"ticket": ticket}
        for _ in range(_MAX_REDIRECTS + 1):
            try:
                with self._http.stream(
                    "GET", url, params=params, headers=self._bell_headers(url), timeout=_BELL_TIMEOUT
                ) as response:
                    if response.status_code in (307, 308) and "location" in response.headers:
                        url, params = str(response.url.join(response.headers["location"])), None
                        continue
                    if response.status_code != 200:
                        raise Unreachable(f"the doorbell answered {response.status_code}")
                    yield _bounded_lines(response)
                    return
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise Unreachable(type(error).__name__) from None
        raise Unreachable("too many redirects")

    def _bell_headers(self, url: str) -> dict[str, str]:
        """The ticket is enough for the doorbell; the credential never follows a redirect to another origin."""
        headers = {"Accept": "text/event-stream"}
        ours, theirs = urlsplit(self._url), urlsplit(url)
        if (ours.scheme, ours.netloc) == (theirs.scheme, theirs.netloc) and self._credential:
            headers["Authorization"] = f"Bearer {self._credential}"
        return headers

    def _post(self, path: str, body: dict[str, Any], *, authorized: bool = True) -> Any:
        headers = {"Content-Type": "application/json"}
        if authorized:
            headers["Authorization"] = f"Bearer {self._credential}"
        try:
            with self._http.stream("POST", self._url + path, content=json_write(body), headers=headers) as response:
                content = _bounded_body(response)
                status, retry_after = response.status_code, response.headers.get("retry-after")
        except httpx.HTTPError as error:
            raise Unreachable(type(error).__name__) from None
        if 200 <= status < 300:
            try:
                return json_read(content)
            except ProtocolError as error:
                raise Unreachable(f"the answer is not the protocol: {error}") from None
        raise _failure(status, content, retry_after)

    @staticmethod
    def _read(kind: type[Reply], value: Any) -> Reply:
        try:
            return kind.parse(value)
        except ProtocolError as error:
            raise Unreachable(f"the answer is not the protocol: {error}") from None


def _failure(status: int, content: bytes, retry_after: str | None) -> ClientError:
    """The error for a status other than 2xx; proxies answer without our error shape."""
    try:
        reply = RefusalReply.parse(json_read(content))
    except ProtocolError:
        reply = None
    if status == 429:
        wait = reply.retry_after_s if reply is not None else None
        if wait is None:
            wait = (
                float(retry_after)
                if retry_after is not None and retry_after.isascii() and retry_after.isdigit()
                else 5.0
            )
        return SlowDown(min(wait, 3600.0))
    if reply is None or status >= 500 or status < 400 or status == 408:
        return Unreachable(f"the platform answered {status}")
    if status == 401:
        return Unauthorized(status, reply)
    if status == 426:
        return UpgradeRequired(status, reply)
    return Refused(status, reply)


def _bounded_body(response: httpx.Response) -> bytes:
    parts: list[bytes] = []
    size = 0
    for part in response.iter_bytes():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise Unreachable("the answer is too long")
        parts.append(part)
    return b"".join(parts)


def _bounded_lines(response: httpx.Response) -> Iterator[str]:
    """Lines without their end; a line longer than any event is the mark of something that is not our doorbell."""
    pending = b""
    for part in response.iter_bytes():
        pending += part
        *lines, pending = pending.split(b"\n")
        if len(pending) > _MAX_BELL_LINE:
            raise Unreachable("the doorbell sent a line without end")
        for line in lines:
            yield line.rstrip(b"\r").decode("utf-8", "replace")
