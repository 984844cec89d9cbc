"""What the marketplace stands on: PostgreSQL, Valkey and a Solana network; embedded, or those the environment names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import httpx
import psycopg2

from gpunex.embedded import APP_ROLE, OWNER_ROLE, Postgres, Process, Valkey, free_port
from gpunex.starter.folder import ROOT, DataFolder, StartError

DATABASE = "gpunex"


class Services:
    """Start in order, stop in reverse. ``environment`` is what every process of ours needs to reach them."""

    def __init__(self, folder: DataFolder, *, demo: bool) -> None:
        self.folder, self.demo = folder, demo
        self.environment: dict[str, str] = {}
        self.signing: dict[str, str] = {}
        """What the worker needs besides, to sign payouts; nobody else gets it."""
        self.owner_url = ""
        self.postgres: Postgres | None = None
        self.valkey: Valkey | None = None
        self.localnet: Process | None = None
        self._localnet_command: list[str] = []
        self._second_url = ""

    def start(self, say: Callable[[str], None]) -> None:
        """Raises StartError or EmbeddedError."""
        chain = os.environ.get("SOLANA_RPC_URL") or self._launch_localnet()
        self._start_postgres(say)
        self._start_valkey(say)
        self._use_chain(chain, say)

    def _start_postgres(self, say: Callable[[str], None]) -> None:
        given = os.environ.get("DATABASE_URL")
        if given:
            self.owner_url = os.environ.get("DATABASE_OWNER_URL", given)
            self.environment["DATABASE_URL"] = given
            say("PostgreSQL: DATABASE_URL")
            return
        self.postgres = Postgres(self.folder.sub("postgres", 0o711))
        self.postgres.start()
        self.postgres.create_roles()
        self.postgres.create_database(DATABASE)
        self.owner_url = self.postgres.url(OWNER_ROLE, DATABASE)
        self.environment["DATABASE_URL"] = self.postgres.url(APP_ROLE, DATABASE)
        say(f"PostgreSQL: port {self.postgres.port}")

    def _start_valkey(self, say: Callable[[str], None]) -> None:
        given = os.environ.get("REDIS_URL")
        if given:
            self.environment["REDIS_URL"] = given
            say("Valkey: REDIS_URL")
            return
        self.valkey = Valkey(self.folder.sub("valkey"))
        self.valkey.start()
        self.environment["REDIS_URL"] = self.valkey.url
        say(f"Valkey: port {self.valkey.port}")

    def _launch_localnet(self) -> str:
        """Start the localnet's process without waiting for it; its address."""
        port, second = free_port(), free_port()
        self._second_url = f"http://127.0.0.1:{second}"
        self.localnet = Process("localnet", self.folder.sub("logs") / "localnet.log")
        self._localnet_command = [sys.executable, "-m", "billing.chain.localnet"]
        self._localnet_command += ["--data", str(self.folder.sub("localnet"))]
        self._localnet_command += ["--port", str(port), "--second-port", str(second)]
        self.localnet.start(self._localnet_command, cwd=ROOT)
        return f"http://127.0.0.1:{port}"

    def _use_chain(self, url: str, say: Callable[[str], None]) -> None:
        if self.localnet:
            self.localnet.wait_until(lambda: localnet_facts(url) is not None)
        elif not self.demo:
            key_file = os.environ.get("SOLANA_HOT_WALLET_KEY_FILE")
            self.signing = {"SOLANA_HOT_WALLET_KEY_FILE": key_file} if key_file else {}
            say("Solana: SOLANA_RPC_URL")
            return
        facts = localnet_facts(url)
        if facts is None:
            raise StartError("SOLANA_RPC_URL: the demo pays with play money and needs a GPUnex localnet there.")
        self.environment |= {
            "SOLANA_RPC_URL": url,
            "SOLANA_SECOND_RPC_URL": self._second_url or os.environ.get("SOLANA_SECOND_RPC_URL", url),
            "SOLANA_GENESIS_HASH": facts["genesis_hash"],
            "SOLANA_USDC_MINT": facts["mint"],
            "SOLANA_VAULT_OWNER": facts["vault_owner"],
            "SOLANA_HOT_WALLET": facts["hot_wallet"],
        }
        self.signing = {"SOLANA_HOT_WALLET_KEY_FILE": facts["hot_wallet_key"]}
        say(f"Solana localnet: {url}")

    def watch(self, say: Callable[[str], None]) -> None:
        """Start again what crashed; the addresses stay, so that nobody else has to be restarted."""
        if self.postgres and not self.postgres.process.running():
            say(f"PostgreSQL: ended, starting again; see {self.postgres.process.log}")
            self.postgres.start()
        if self.valkey and not self.valkey.process.running():
            say(f"Valkey: ended, starting again; see {self.valkey.process.log}")
            self.valkey.start()
        if self.localnet and not self.localnet.running():
            say(f"localnet: ended, starting again; see {self.localnet.log}")
            self.localnet.start(self._localnet_command, cwd=ROOT)

    def processes(self) -> set[int]:
        owned = [self.postgres and self.postgres.process, self.valkey and self.valkey.process, self.localnet]
        return {process.child.pid for process in owned if process and process.child}

    def stop(self) -> None:
        if self.localnet:
            self.localnet.stop(seconds=3)
        if self.valkey:
            self.valkey.stop()
        if self.postgres:
            self.postgres.stop()


def localnet_facts(url: str) -> dict[str, Any] | None:
    """What the localnet at this address says of itself; None where nothing, or something else, answers."""
    try:
        answer = httpx.post(f"{url}/control", json={"action": "facts"}, timeout=5, trust_env=False)
        found = answer.json()
    except (httpx.HTTPError, ValueError):
        return None
    result = found.get("result", found) if isinstance(found, dict) else None
    return result if isinstance(result, dict) and "genesis_hash" in result else None


def database_must_be_ours(owner_url: str, *, demo: bool, genesis_hash: str) -> None:
    """Refuse a database that holds anything but an installation of this kind, before a single table is made.

    Raises StartError.
    """
    try:
        connection = psycopg2.connect(owner_url)
    except psycopg2.OperationalError as error:
        raise StartError(f"DATABASE_URL: PostgreSQL does not answer: {str(error).strip()}") from None
    with closing(connection), connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')")
        tables = cursor.fetchone()
        if tables == (0,):
            return
        cursor.execute("SELECT to_regclass('gpunex_installation') IS NOT NULL")
        mark = None
        if cursor.fetchone() == (True,):
            cursor.execute("SELECT kind, genesis_hash FROM gpunex_installation")
            mark = cursor.fetchone()
    wanted = "demo" if demo else "plain"
    if mark is None or mark[0] != wanted:
        found = "tables of something else" if mark is None else f"an installation of the kind {mark[0]!r}"
        raise StartError(f"DATABASE_URL: the database holds {found}; a {wanted} start needs an empty one or its own.")
    if demo and mark[1] != genesis_hash:
        raise StartError("The database belongs to another localnet: start on the data folder that both were made in.")
