"""Listens on the guard's own socket: one thread per connection, one request per connection."""

import logging
import os
import socket
import stat
import threading
import time
from pathlib import Path

from agent.guard.calls import Context, Relay, Unanswered, call_find, query_check
from agent.guard.engine import Engine
from agent.guard.errors import Busy, EngineAway, GuardError, Refused
from agent.guard.http import Request, answer, answer_error, body_read, request_read
from agent.guard.policy import Policy
from agent.guard.workspace import Workspaces

# A log is followed for each running job, and there are at most 32 GPUs; the rest are short questions.
MAX_CONNECTIONS = 64
_REQUEST_S = 10.0
_ANSWER_S = 30.0
_LOOK_S = 0.5
# A container holds the socket that the engine had when the container was started. An engine that made a new one (some do
# when they restart, and with live-restore the guard goes on) is out of reach until the guard is started again.
PATIENCE_S = 60.0
_BACKLOG = 128

log = logging.getLogger("guard")


class GuardServer:
    """`path`: where the agent finds the socket. The folder decides who reaches it, the group who may use it."""

    def __init__(self, path: Path, engine: Engine, policy: Policy, *, patience_s: float = PATIENCE_S) -> None:
        self._path = path
        self._engine = engine
        self._policy = policy
        self._patience_s = patience_s
        self._workspaces = Workspaces(engine)
        self._slots = threading.Semaphore(MAX_CONNECTIONS)
        self._listener: socket.socket | None = None

    def serve(self, stop: threading.Event) -> bool:
        """Until `stop` is set; false when the engine was away for too long. Raises OSError where no socket can be made."""
        self._listener = self._listen()
        log.info("listening", extra={"socket": str(self._path)})
        try:
            while not stop.is_set():
                if self._engine.away_s() > self._patience_s:
                    log.error("the engine stays away; ending, so that a new start finds a new socket of its")
                    return False
                try:
                    connection, _ = self._listener.accept()
                except TimeoutError:
                    continue
                self._accepted(connection)
            return True
        finally:
            self._listener.close()
            self._path.unlink(missing_ok=True)

    def _listen(self) -> socket.socket:
        # A socket that an earlier guard left behind is replaced; anything else of this name is not ours to remove.
        if os.path.lexists(self._path) and not stat.S_ISSOCK(os.lstat(self._path).st_mode):
            raise FileExistsError(f"{self._path} is no socket")
        # It gets its name once it listens, so that whoever sees it can connect.
        early = self._path.with_name(f".{self._path.name}")
        early.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o117)
        try:
            listener.bind(str(early))
        finally:
            os.umask(mask)
        listener.listen(_BACKLOG)
        early.rename(self._path)
        listener.settimeout(_LOOK_S)
        return listener

    def _accepted(self, connection: socket.socket) -> None:
        if not self._slots.acquire(blocking=False):
            with connection:
                _send(connection, answer_error(Busy.status, f"guard: {MAX_CONNECTIONS} connections are open already"))
            return
        threading.Thread(target=self._connection, args=(connection,), name="connection", daemon=True).start()

    def _connection(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._answer(connection)
        except Exception:
            log.exception("a connection failed")
        finally:
            self._slots.release()

    def _answer(self, connection: socket.socket) -> None:
        request = None
        try:
            deadline = time.monotonic() + _REQUEST_S
            request = request_read(connection, deadline)
            if request is None:
                return
            self._serve(connection, request, deadline)
        except GuardError as error:
            _journal(request, error)
            _send(connection, answer_error(error.status, error.message))
        except Unanswered as unanswered:
            found = unanswered.answer
            _send(connection, answer(found.status, found.body, found.content_type))
        except OSError as error:
            log.debug("the peer went away", extra={"kind": type(error).__name__})

    def _serve(self, connection: socket.socket, request: Request, deadline: float) -> None:
        call, name = call_find(request)
        query = query_check(call, request.query)
        body = body_read(connection, request, call.body_bytes, deadline)
        prefix = "" if request.version is None else f"/v1.{request.version}"
        context = Context(
            self._engine, self._policy, self._workspaces, prefix, request.version, query, name, body, request.login
        )
        outcome = call.run(context)
        if isinstance(outcome, Relay):
            self._engine.relay(connection, outcome.method, outcome.path, query=outcome.query, login=outcome.login)
        else:
            _send(connection, answer(outcome.status, outcome.body, outcome.content_type))


def _send(connection: socket.socket, content: bytes) -> None:
    try:
        connection.settimeout(_ANSWER_S)
        connection.sendall(content)
    except OSError as error:
        log.debug("the peer went away", extra={"kind": type(error).__name__})


def _journal(request: Request | None, error: GuardError) -> None:
    """One line for each refusal, without anything of the customer's."""
    call = "" if request is None else f"{request.method} {request.path[:200]}"
    if isinstance(error, Refused):
        said = {"where": error.where, "found": error.found, "allowed": error.allowed}
        log.warning("refused", extra={"call": call, **said})
    elif isinstance(error, EngineAway):
        log.warning("the engine does not answer", extra={"call": call, "said": error.message})
