"""A network with its two HTTP endpoints, started and stopped as one."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from billing.chain.localnet.cluster import Finality
from billing.chain.localnet.network import Localnet
from billing.chain.localnet.server import NodeServer


class RunningLocalnet:
    """A local network that answers on loopback. Use as a context manager, or call `stop`.

    Args:
        folder: the data folder.
        port, second_port: 0 picks a free one.
        block_milliseconds: the clock; 0 makes blocks only on `tick`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        finality: Finality,
        port: int = 0,
        second_port: int = 0,
        block_milliseconds: int = 0,
    ) -> None:
        self.network = Localnet(folder, finality)
        self._servers: list[NodeServer] = []
        try:
            for node, number in ((self.network.primary, port), (self.network.second, second_port)):
                self._servers.append(NodeServer(self.network, node, number))
        except OSError:
            self._close_servers()
            self.network.stop()
            raise
        for server in self._servers:
            server.start()
        if block_milliseconds:
            self.network.run_clock(block_milliseconds)

    @property
    def rpc(self) -> str:
        return self._servers[0].url

    @property
    def second_rpc(self) -> str:
        return self._servers[1].url

    def facts(self) -> dict[str, Any]:
        return {"rpc": self.rpc, "second_rpc": self.second_rpc} | self.network.facts()

    def stop(self) -> None:
        """Finish the answers in progress as far as they go, then close the journal."""
        self.network.stopping.set()
        for server in self._servers:
            server.stop()
        self.network.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _close_servers(self) -> None:
        for server in self._servers:
            server.server_close()
