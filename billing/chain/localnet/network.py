"""The local network as one thing: a chain, two nodes, the faucet, the clock. Safe for threads."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from billing.chain import instructions as program
from billing.chain.localnet.cluster import Finality
from billing.chain.localnet.keys import key_path, keys_load_or_create
from billing.chain.localnet.node import Node
from billing.chain.localnet.store import ChainStore


class Localnet:
    """A running network on a data folder. `tick` makes blocks; `run_clock` makes them by itself.

    Args:
        folder: the data folder, created if missing, closed to other users.
        now: Unix seconds for the blocks' time.
    """

    def __init__(self, folder: Path, finality: Finality, now: Callable[[], int] = lambda: int(time.time())) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self.keys = keys_load_or_create(folder)
        self._store = ChainStore(folder, self.keys, finality)
        self.cluster = self._store.cluster
        self.roles = self.cluster.genesis.roles
        self.primary, self.second = Node(self.cluster), Node(self.cluster)
        self.lock = threading.RLock()
        self.stopping = threading.Event()
        self._now = now
        self._clock: threading.Thread | None = None

    def facts(self) -> dict[str, Any]:
        """What somebody who wants to use the network has to know, key files by path."""
        return {
            "genesis_hash": self.cluster.genesis.hash,
            **self.roles,
            "hot_wallet_key": str(key_path(self.folder, "hot_wallet")),
            "vault_owner_key": str(key_path(self.folder, "vault_owner")),
        }

    def tick(self, count: int = 1) -> int:
        """Make `count` blocks; give the height. A forked node's chain grows along."""
        with self.lock:
            chains = {id(node.cluster): node.cluster for node in (self.primary, self.second)}
            chains[id(self.cluster)] = self.cluster
            for _ in range(count):
                for chain in chains.values():
                    chain.produce(self._now())
            return self.cluster.height

    def rollback(self, count: int, *, keep_pending: bool) -> int:
        with self.lock:
            return self.cluster.rollback(count, keep_pending=keep_pending)

    def fork_second(self, depth: int) -> None:
        """From now on the second node follows a chain of its own, which lacks the last `depth` blocks."""
        with self.lock:
            self.second.cluster = self.cluster.fork(depth, f"fork-{uuid.uuid4()}")

    def heal_second(self) -> None:
        """The second node sees all that the first one sees."""
        with self.lock:
            self.second.cluster, self.second.lag, self.second.first_height = self.cluster, 0, 0

    def airdrop(self, address: str, lamports: int) -> str:
        """SOL from the faucet; lands with the next block."""
        payer = self.keys.faucet.pubkey()
        params = TransferParams(from_pubkey=payer, to_pubkey=Pubkey.from_string(address), lamports=lamports)
        return self._submit([transfer(params)], [self.keys.faucet])

    def mint(self, address: str, amount_micro: int, *, mint: str | None = None) -> str:
        """Tokens (USDC unless another mint of ours is named) for a wallet; lands with the next block."""
        payer, authority = self.keys.faucet, self.keys.mint_authority
        key, owner = Pubkey.from_string(mint or self.roles["mint"]), Pubkey.from_string(address)
        account = program.token_account_of(owner, key)
        steps = [
            program.create_token_account_idempotent(payer.pubkey(), owner, key),
            program.mint_to_checked(key, account, authority.pubkey(), amount_micro),
        ]
        return self._submit(steps, [payer, authority])

    def freeze(self, address: str, *, thaw: bool) -> str:
        """Freeze or thaw a wallet's USDC account, as the issuer may; lands with the next block."""
        mint = Pubkey.from_string(self.roles["mint"])
        account = program.token_account_of(Pubkey.from_string(address), mint)
        step = program.freeze(account, mint, self.keys.mint_authority.pubkey(), thaw=thaw)
        return self._submit([step], [self.keys.faucet, self.keys.mint_authority])

    def run_clock(self, block_milliseconds: int) -> None:
        """Make a block every so often until `stop`."""
        self._clock = threading.Thread(target=self._make_blocks, args=(block_milliseconds / 1000,), name="localnet")
        self._clock.start()

    def stop(self) -> None:
        """End the clock and close the journal."""
        self.stopping.set()
        if self._clock is not None:
            self._clock.join()
        with self.lock:
            self._store.close()

    def _make_blocks(self, seconds: float) -> None:
        due = time.monotonic() + seconds
        while not self.stopping.wait(max(0.0, due - time.monotonic())):
            self.tick()
            due = max(due + seconds, time.monotonic())

    def _submit(self, steps: list[Instruction], signers: list[Keypair]) -> str:
        # The memo makes two equal gifts on one blockhash two transactions.
        label = Instruction(
            program.MEMO_PROGRAM, str(uuid.uuid4()).encode(), [AccountMeta(signers[0].pubkey(), True, True)]
        )
        with self.lock:
            blockhash = Hash.from_string(self.cluster.blockhash(self.cluster.height))
            message = Message.new_with_blockhash([label, *steps], signers[0].pubkey(), blockhash)
            return self.cluster.submit(VersionedTransaction(message, signers))
