"""The doorbell: a small ASGI app where agents and live pages hold an event stream open and hear "come and fetch".

    granian --interface asgi --factory gpunex.doorbell:application

It knows no database and carries no data. A ticket (an HMAC over one channel) opens a stream; a message published in
Valkey under ``bell:<channel>`` rings it. If this process is down, agents go on at heartbeat pace. Several processes may
run: each hears every ring and passes on those that its own listeners wait for.
"""

from __future__ import annotations

import asyncio
import json
import logging.config
import os
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

import redis.asyncio
import structlog
from redis.exceptions import RedisError

from core import logs
from core.bell import CHANNEL_PREFIX, ticket_channel

log = structlog.get_logger(__name__)

PATHS = ("/agent/v1/bell", "/bell")
EVENTS = ("ring", "revoke")
KEEP_ALIVE_SECONDS = 15.0
"""Below every proxy's usual idle limit; an agent takes 95 s of silence for a dead connection."""
STREAM_SECONDS = 3600.0
"""A stream outlives its ticket, but not for ever: its listener comes back with a fresh one."""
MAX_LISTENERS = 20_000
CATCH_UP_SECONDS = 5.0
"""After a break in the subscription everybody is rung once, spread over this long: rings may have been missed."""
RECONNECT_SECONDS = 1.0
SILENCE_SECONDS = 5.0
"""The subscription is pinged this often, so that a half-open connection is noticed."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Listener:
    """One open stream. Rings that come faster than they are sent melt into one."""

    def __init__(self) -> None:
        self._event: str | None = None
        self._woken = asyncio.Event()

    def wake(self, event: str) -> None:
        if self._event != "revoke":  # nothing takes a revocation back
            self._event = event
        self._woken.set()

    async def next_event(self, seconds: float) -> str | None:
        """The event that came within ``seconds``, or None."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)
        self._woken.clear()
        event, self._event = self._event, None
        return event


class Doorbell:
    """The ASGI application. ``secret`` verifies tickets; ``origin`` is the site whose pages may listen."""

    def __init__(self, *, redis_url: str, secret: str, origin: str) -> None:
        self.redis_url, self.secret, self.origin = redis_url, secret, origin
        self.listeners: dict[str, set[Listener]] = defaultdict(set)
        self.count = 0
        self.subscribed = False
        self._subscription: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._subscription = asyncio.create_task(self._subscribe_for_ever())
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                if self._subscription is not None:
                    self._subscription.cancel()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/healthz":
            body = {"ok": self.subscribed, "listeners": self.count}
            await answer(send, 200 if self.subscribed else 503, body)
        elif scope["path"] not in PATHS:
            await answer(send, 404, {"code": "not_found", "message": "There is no such thing here."})
        elif scope["method"] != "GET":
            await answer(send, 405, {"code": "method_not_allowed", "message": "GET only."})
        elif (channel := self._channel(scope)) is None:
            await answer(send, 401, {"code": "bad_ticket", "message": "The ticket is malformed, forged or expired."})
        elif self.count >= MAX_LISTENERS:
            await answer(send, 503, {"code": "full", "message": "Too many streams are open; go on without the bell."})
        else:
            await self._listen(channel, receive, send)

    def _channel(self, scope: Scope) -> str | None:
        query = parse_qs(scope["query_string"].decode("latin-1"))
        ticket = query.get("ticket", [""])[0]
        return ticket_channel(ticket, key=self.secret, unix_now=time.time())

    async def _listen(self, channel: str, receive: Receive, send: Send) -> None:
        listener = Listener()
        self.listeners[channel].add(listener)
        self.count += 1
        sending = asyncio.create_task(self._send_events(listener, send))
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, gone):
                task.cancel()
            self.count -= 1
            self.listeners[channel].discard(listener)
            if not self.listeners[channel]:
                del self.listeners[channel]

    async def _send_events(self, listener: Listener, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            # Pages listen from the site's own origin, nobody else's; no cookie is read or needed here.
            (b"access-control-allow-origin", self.origin.encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b": listening\n\n", "more_body": True})
        ends = time.monotonic() + STREAM_SECONDS
        event: str | None = None
        while event != "revoke" and time.monotonic() < ends:
            event = await listener.next_event(KEEP_ALIVE_SECONDS)
            body = f"event: {event}\ndata: sync\n\n" if event else ": still here\n\n"
            await send({"type": "http.response.body", "body": body.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def ring(self, channel: str, event: str) -> None:
        if event in EVENTS:
            for listener in self.listeners.get(channel, ()):
                listener.wake(event)

    def ring_everybody(self) -> None:
        """Rings may have been missed: wake every stream once, not all in the same instant."""
        loop = asyncio.get_running_loop()
        for listeners in self.listeners.values():
            for listener in listeners:
                loop.call_later(random.uniform(0, CATCH_UP_SECONDS), listener.wake, "ring")

    async def _subscribe_for_ever(self) -> None:
        while True:
            try:
                await self._subscribe()
            except (RedisError, OSError, TimeoutError) as error:
                log.warning("doorbell_subscription_lost", error=repr(error))
            self.subscribed = False
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _subscribe(self) -> None:
        client = redis.asyncio.Redis.from_url(self.redis_url, decode_responses=True, socket_connect_timeout=1)
        async with client, client.pubsub() as subscription:
            await subscription.psubscribe(CHANNEL_PREFIX + "*")
            unanswered = 0
            while True:
                message = await subscription.get_message(timeout=SILENCE_SECONDS)
                if message is None:
                    if unanswered:
                        raise TimeoutError("Valkey does not answer")
                    unanswered = 1
                    await subscription.ping()
                elif message["type"] == "psubscribe":
                    self.subscribed = True
                    self.ring_everybody()
                elif message["type"] == "pmessage":
                    self.ring(message["channel"].removeprefix(CHANNEL_PREFIX), message["data"])
                else:  # a pong
                    unanswered = 0


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def answer(send: Send, status: int, body: Mapping[str, object]) -> None:
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode(), "more_body": False})


def application() -> Doorbell:
    """From the web process's own variables: REDIS_URL, BELL_SECRET (or SECRET_KEY), ORIGIN."""
    logging.config.dictConfig(logs.configure(level=os.environ.get("LOG_LEVEL", "INFO")))
    secret = os.environ.get("BELL_SECRET") or os.environ["SECRET_KEY"]
    origin = os.environ.get("ORIGIN", "http://127.0.0.1:8000").rstrip("/")
    return Doorbell(redis_url=os.environ["REDIS_URL"], secret=secret, origin=origin)
