"""Accounts and execution: LiteSVM, plus every version an account ever had.

The versions are what makes commitments honest (a read at `finalized` gives the state of the finalized block, not of the
tip) and rollbacks cheap (put back the version that was current then).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from solders.account import Account
from solders.litesvm import LiteSVM
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata

from billing.chain.instructions import SYSTEM_PROGRAM
from billing.chain.localnet import encoding

NO_ACCOUNT = Account(0, b"", SYSTEM_PROGRAM)  # LiteSVM removes an account that is set to this


@dataclass(frozen=True, slots=True)
class Execution:
    """What a transaction did. Balances are by account index; token balances are in RPC form."""

    error: Any
    logs: list[str]
    units: int
    fee: int
    inner_instructions: list[dict[str, Any]]
    lamports: tuple[list[int], list[int]]
    tokens: tuple[list[dict[str, Any]], list[dict[str, Any]]]

    @property
    def landed(self) -> bool:
        """A failed transaction is in a block all the same, provided that it could pay its fee."""
        return self.error is None or self.lamports[0][0] != self.lamports[1][0]


class Bank:
    """The state of one chain. Not safe for threads: the network's lock is held around every call."""

    def __init__(self, genesis: Mapping[str, Account]) -> None:
        self._versions: dict[Pubkey, list[tuple[int, Account | None]]] = {}
        self._live = _virtual_machine()
        for address, account in genesis.items():
            key = Pubkey.from_string(address)
            self._live.set_account(key, account)
            self._versions[key] = [(0, account)]

    @cached_property
    def _scratch(self) -> LiteSVM:
        """Where dry runs take place: only a transaction's own accounts are ever put here, each time anew."""
        return _virtual_machine().with_sigverify(False)

    def account(self, key: Pubkey, height: int) -> Account | None:
        """The account after block `height`. Built-in programs and system variables are the same at every height."""
        versions = self._versions.get(key)
        if versions is None:
            return _existing(self._live.get_account(key))
        return versions[bisect_right(versions, height, key=lambda version: version[0]) - 1][1]

    def accounts(self, height: int) -> Iterator[tuple[Pubkey, Account]]:
        for key in self._versions:
            account = self.account(key, height)
            if account is not None:
                yield key, account

    def minimum_balance(self, size: int) -> int:
        return self._live.minimum_balance_for_rent_exemption(size)

    def execute(self, transaction: VersionedTransaction, *, height: int, slot: int, time: int) -> Execution:
        """Run a transaction in block `height` and keep what it changed."""
        keys = list(transaction.message.account_keys)
        before = [_existing(self._live.get_account(key)) for key in keys]
        clock = self._live.get_clock()
        clock.slot, clock.unix_timestamp = slot, time
        self._live.set_clock(clock)
        result = self._live.send_transaction(transaction)
        after = [_existing(self._live.get_account(key)) for key in keys]
        for key, old, new in zip(keys, before, after, strict=True):
            if old != new:
                versions = self._versions.setdefault(key, [(0, old)])
                if versions[-1][0] == height:
                    versions.pop()
                versions.append((height, new))
        error: Any = None
        if isinstance(result, FailedTransactionMetadata):
            error, meta = encoding.transaction_error(result.err()), result.meta()
        else:
            meta = result
        return Execution(
            error=error,
            logs=meta.logs(),
            units=meta.compute_units_consumed(),
            fee=meta.fee(),
            inner_instructions=encoding.inner_instructions(meta.inner_instructions()),
            lamports=(_lamports(before), _lamports(after)),
            tokens=(self._token_balances(before, height), self._token_balances(after, height)),
        )

    def simulate(self, transaction: VersionedTransaction, *, height: int) -> tuple[Any, list[str], int]:
        """Dry-run on the state after block `height`: (error or None, logs, compute units)."""
        scratch = self._scratch
        for key in transaction.message.account_keys:
            if key in self._versions:
                scratch.set_account(key, self.account(key, height) or NO_ACCOUNT)
        result = scratch.simulate_transaction(transaction)
        meta = result.meta()
        error = encoding.transaction_error(result.err()) if isinstance(result, FailedTransactionMetadata) else None
        return error, meta.logs(), meta.compute_units_consumed()

    def rewind(self, height: int) -> None:
        """Forget every block above `height`."""
        for key, versions in self._versions.items():
            if versions[-1][0] > height:
                while versions[-1][0] > height:
                    versions.pop()
                self._live.set_account(key, versions[-1][1] or NO_ACCOUNT)

    def _token_balances(self, accounts: Iterable[Account | None], height: int) -> list[dict[str, Any]]:
        states = ((index, encoding.token_state(account)) for index, account in enumerate(accounts))
        return [
            encoding.token_balance(index, state, self.account(state.mint, height))
            for index, state in states
            if state is not None
        ]


def _virtual_machine() -> LiteSVM:
    # Blockhashes and double sends are the cluster's business: LiteSVM's own memory holds 32 transactions by default
    # and executes the 33rd one's forerunner again. With no memory there is nothing to be wrong.
    return LiteSVM().with_blockhash_check(False).with_transaction_history(0)


def _existing(account: Account | None) -> Account | None:
    return account if account is not None and account.lamports > 0 else None


def _lamports(accounts: Iterable[Account | None]) -> list[int]:
    return [0 if account is None else account.lamports for account in accounts]
