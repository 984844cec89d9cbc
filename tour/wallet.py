"""A Solana wallet for the tour: its key lies in the data folder, its play money comes from the localnet's faucet."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from solders.keypair import Keypair

from billing.chain.keyfile import read_key_file, write_key_file
from billing.chain.localnet.client import LocalnetControl
from billing.chain.rpc import RpcClient
from billing.chain.transactions import build_deposit_message, sign_with_secret, token_account_address
from billing.chain.wallets import sign_challenge
from core.money import parse_usdc

LAMPORTS = 1_000_000_000


class Wallet:
    def __init__(self, rpc_url: str, key_file: Path) -> None:
        if not key_file.exists():
            write_key_file(key_file, Keypair())
        keypair = read_key_file(key_file)
        self._secret = bytes(keypair)
        self.address = str(keypair.pubkey())
        self.rpc = RpcClient(rpc_url)
        self.control = LocalnetControl(rpc_url)
        self.mint = self.control.facts()["mint"]

    def usdc(self) -> int:
        """Micro-USDC in finalized blocks; 0 where there is no token account yet."""
        account = token_account_address(self.address, self.mint)
        if self.rpc.account_info(account, commitment="finalized") is None:
            return 0
        found = self.rpc.token_account_balance(account, commitment="finalized")
        return found.amount if found is not None else 0

    def fill(self, amount_micro: int) -> None:
        """SOL for fees and USDC to spend, from the localnet's own mint."""
        self.control.airdrop(self.address, LAMPORTS)
        self.control.mint(self.address, amount_micro)

    def pay(self, link: str) -> tuple[str, int]:
        """Follow a Solana Pay link; returns the transaction's signature and the amount (micro-USDC)."""
        parts = urlsplit(link)
        query = {name: unquote(values[0]) for name, values in parse_qs(parts.query).items()}
        amount_micro = parse_usdc(query["amount"])
        message = build_deposit_message(
            owner=self.address,
            mint=query["spl-token"],
            recipient=parts.path,
            amount_micro=amount_micro,
            blockhash=self.rpc.latest_blockhash(commitment="confirmed").blockhash,
            references=[query["reference"]],
            memo=query.get("memo"),
        )
        signed = sign_with_secret(message, self._secret)
        self.rpc.send(signed.raw, skip_preflight=False, preflight_commitment="confirmed")
        return signed.signature, amount_micro

    def sign(self, text: str) -> str:
        return sign_challenge(message=text.encode(), secret=self._secret)
