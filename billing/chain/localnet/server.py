"""HTTP in front of a node: JSON-RPC at `/`, and at `/control` the levers for tests and the tour. Loopback only."""

from __future__ import annotations

import json
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from billing.chain import errors
from billing.chain.localnet.control import ControlRefused, control
from billing.chain.localnet.faults import DONE_NOTHING, Fault, FaultKind
from billing.chain.localnet.methods import call
from billing.chain.localnet.network import Localnet
from billing.chain.localnet.node import Node
from billing.chain.localnet.params import MethodError

LOOPBACK = "127.0.0.1"
BODY_MAX = 1 << 20
KEEP_ALIVE_SECONDS = 60
STOP_POLL_SECONDS = 0.02
STATUS_OF_FAULT = {
    FaultKind.HTTP_500: HTTPStatus.INTERNAL_SERVER_ERROR,
    FaultKind.HTTP_503: HTTPStatus.SERVICE_UNAVAILABLE,
    FaultKind.HTTP_503_AFTER: HTTPStatus.SERVICE_UNAVAILABLE,
    FaultKind.HTTP_429: HTTPStatus.TOO_MANY_REQUESTS,
}


class NodeServer(ThreadingHTTPServer):
    """Serves one node on a loopback port (0 picks a free one) in threads of its own."""

    daemon_threads = True
    block_on_close = False  # idle kept-alive connections must not hold up a stop
    request_queue_size = 128

    def __init__(self, network: Localnet, node: Node, port: int) -> None:
        super().__init__((LOOPBACK, port), NodeHandler)
        self.network = network
        self.node = node
        self._thread = threading.Thread(
            target=self.serve_forever, args=(STOP_POLL_SECONDS,), name=f"node:{self.server_port}", daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is no news; everything else is."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class NodeHandler(BaseHTTPRequestHandler):
    """One connection. Each reply leaves in a single write: two would wait for each other's acknowledgement (40 ms)."""

    server: NodeServer
    protocol_version = "HTTP/1.1"
    timeout = KEEP_ALIVE_SECONDS
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: a node is asked many times a second."""

    def do_POST(self) -> None:
        body = self._body()
        if body is None:
            return
        if self.path == "/control":
            self._control(body)
        elif self.path == "/":
            self._rpc(body)
        else:
            self._reply(HTTPStatus.NOT_FOUND, {"error": f"path: found {self.path}, allowed / and /control"})

    def _body(self) -> bytes | None:
        """The request's body, or None: refused, or cut short. A page in somebody's browser must not get here."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > BODY_MAX:
            self.close_connection = True
            self._reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"body: allowed up to {BODY_MAX} bytes"})
            return None
        body = self.rfile.read(int(length))
        if len(body) < int(length):  # its sender was cut off, and said nothing
            self.close_connection = True
            return None
        host = self.headers.get("Host", "").rpartition(":")[0]
        json_body = self.headers.get_content_type() == "application/json"
        if host not in (LOOPBACK, "localhost") or "Origin" in self.headers or not json_body:
            self._reply(HTTPStatus.FORBIDDEN, {"error": "JSON from programs on this machine only"})
            return None
        return body

    def _control(self, body: bytes) -> None:
        try:
            request = json.loads(body)
        except ValueError:
            self._reply(HTTPStatus.BAD_REQUEST, {"error": "body: not JSON"})
            return
        try:
            result = control(self.server.network, request)
        except ControlRefused as error:
            self._reply(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        else:
            self._reply(HTTPStatus.OK, {"result": result})

    def _rpc(self, body: bytes) -> None:
        try:
            request = json.loads(body)
            name, params = request["method"], request.get("params") or []
            if not isinstance(name, str) or not isinstance(params, list):
                raise TypeError("method must be a string, params a list")
        except ValueError:
            self._reply(HTTPStatus.OK, _failure(None, MethodError(errors.CODE_PARSE_ERROR, "Parse error")))
            return
        except (AttributeError, KeyError, TypeError):
            self._reply(HTTPStatus.OK, _failure(None, MethodError(errors.CODE_INVALID_REQUEST, "Invalid request")))
            return
        network, node = self.server.network, self.server.node
        with network.lock:
            node.calls[name] += 1
            fault = node.faults.take(name)
            if fault is not None and fault.kind in DONE_NOTHING:
                answer = _failure(request.get("id"), MethodError(errors.CODE_NODE_UNHEALTHY, "Node is behind"))
            else:
                answer = _answer(network, node, request.get("id"), name, params)
                if fault is not None and fault.kind is FaultKind.LOSE_TRANSACTION:
                    node.cluster.mempool.pop(str(answer.get("result")), None)
        self._finish(fault, answer)

    def _finish(self, fault: Fault | None, answer: dict[str, Any]) -> None:
        if fault is None:
            self._reply(HTTPStatus.OK, answer)
        elif fault.kind in (FaultKind.DROP_REQUEST, FaultKind.DROP_RESPONSE):
            self.close_connection = True
        elif fault.kind in STATUS_OF_FAULT:
            self._reply(STATUS_OF_FAULT[fault.kind], {"error": fault.kind.value})
        elif fault.kind is FaultKind.GARBAGE:
            self._send(HTTPStatus.OK, b"<html>upstream timed out</html>", "text/html")
        else:
            if fault.kind is FaultKind.SLOW:
                self.server.network.stopping.wait(fault.seconds)
            self._reply(HTTPStatus.OK, answer)

    def _reply(self, status: HTTPStatus, value: dict[str, Any]) -> None:
        self._send(status, json.dumps(value, separators=(",", ":")).encode(), "application/json")

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        connection = "close" if self.close_connection else "keep-alive"
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(content)}\r\nConnection: {connection}\r\n\r\n"
        )
        self.wfile.write(head.encode() + content)


def _answer(network: Localnet, node: Node, request_id: Any, name: str, params: list[Any]) -> dict[str, Any]:
    try:
        return {"jsonrpc": "2.0", "id": request_id, "result": call(network, node, name, params)}
    except MethodError as error:
        return _failure(request_id, error)


def _failure(request_id: Any, error: MethodError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": error.to_json()}
