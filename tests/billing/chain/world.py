"""What the tests of the chain do again and again: fund, pay, deposit, look."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.transaction import VersionedTransaction

from billing.chain.localnet.client import LocalnetControl
from billing.chain.localnet.runner import RunningLocalnet
from billing.chain.rpc import RpcClient
from billing.chain.signer import KeyFileSigner, SignerPolicy
from billing.chain.transactions import (
    SignedTransaction,
    assemble_transaction,
    build_deposit_message,
    build_payout_message,
    sign_with_secret,
    token_account_address,
)

USDC = 1_000_000
LIMIT_MICRO = 5_000 * USDC
CLIENT_TIMEOUT_SECONDS = 60.0


class World:
    """A running network, a client per endpoint, its levers, and the platform's signer."""

    def __init__(self, running: RunningLocalnet) -> None:
        self.running = running
        self.network = running.network
        self.facts = running.facts()
        self.mint: str = self.facts["mint"]
        self.hot_wallet: str = self.facts["hot_wallet"]
        self.rpc = RpcClient(running.rpc, timeout_seconds=CLIENT_TIMEOUT_SECONDS)
        self.second = RpcClient(running.second_rpc, timeout_seconds=CLIENT_TIMEOUT_SECONDS)
        self.control = LocalnetControl(running.rpc)
        policy = SignerPolicy(
            mint=self.mint, source_account=self.facts["hot_wallet_token_account"], payout_limit_micro=LIMIT_MICRO
        )
        self.signer = KeyFileSigner(Path(self.facts["hot_wallet_key"]), policy)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in (self.rpc, self.second, self.control):
            client.close()

    @property
    def finalized_after(self) -> int:
        return self.network.cluster.finality.finalized

    def finalize(self) -> None:
        """Let everything in the mempool land and become final."""
        self.control.tick(1 + self.finalized_after)

    def payout(self, wallet: str, amount_micro: int = USDC, payout_id: uuid.UUID | None = None) -> SignedTransaction:
        """A signed payout, not yet sent."""
        message = build_payout_message(
            payout_id=payout_id or uuid.uuid4(),
            hot_wallet=self.hot_wallet,
            mint=self.mint,
            destination_owner=wallet,
            amount_micro=amount_micro,
            blockhash=self.rpc.latest_blockhash(commitment="confirmed").blockhash,
        )
        return assemble_transaction(message, [self.signer.sign(message)])

    def send(self, transaction: SignedTransaction, *, skip_preflight: bool = False) -> str:
        return self.rpc.send(transaction.raw, skip_preflight=skip_preflight, preflight_commitment="confirmed")

    def error_of(self, signature: str) -> str | None:
        """The error of a landed transaction, None if it succeeded."""
        status = self.status(signature)
        assert status is not None, f"{signature} is in no block"
        return status.error

    def status(self, signature: str):
        return self.rpc.signature_statuses([signature], search_history=True).statuses[0]

    def usdc(self, wallet: str, commitment: str = "processed") -> int:
        balance = self.rpc.token_account_balance(token_account_address(wallet, self.mint), commitment=commitment)
        return 0 if balance is None else balance.amount

    def customer(self, usdc_micro: int = 1_000 * USDC) -> Keypair:
        """A wallet with SOL and USDC."""
        wallet = Keypair()
        self.control.airdrop(str(wallet.pubkey()), 10**9)
        self.control.mint(str(wallet.pubkey()), usdc_micro)
        self.control.tick()
        return wallet

    def deposit(self, customer: Keypair, amount_micro: int, *, references=(), memo=None) -> str:
        """A customer pays into the vault; sent, not yet in a block."""
        message = build_deposit_message(
            owner=str(customer.pubkey()),
            mint=self.mint,
            recipient=self.facts["vault_owner"],
            amount_micro=amount_micro,
            blockhash=self.rpc.latest_blockhash(commitment="processed").blockhash,
            references=references,
            memo=memo,
        )
        return self.send(sign_with_secret(message, bytes(customer)), skip_preflight=True)

    def submit(self, steps: list[Instruction], *signers: Keypair) -> str:
        """Any other transaction, straight into the mempool."""
        cluster = self.network.cluster
        blockhash = Hash.from_string(cluster.blockhash(cluster.height))
        message = Message.new_with_blockhash(steps, signers[0].pubkey(), blockhash)
        return cluster.submit(VersionedTransaction(message, list(signers)))

    def key(self, name: str) -> Keypair:
        return Keypair.from_bytes(bytes(json.loads((self.network.folder / "keys" / f"{name}.json").read_text())))


def new_wallet() -> str:
    return str(Keypair().pubkey())
