"""The local network's keys, made once per data folder. They hold play money; their files are private all the same."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from solders.keypair import Keypair

from billing.chain.keyfile import read_key_file, write_key_file


@dataclass(frozen=True, slots=True)
class NetworkKeys:
    """Who may do what on the local network.

    `mint_authority` makes and freezes USDC, `faucet` holds SOL, `hot_wallet` pays providers, `vault_owner` owns the
    account that customers pay into (on a real network this key is on no server).
    """

    mint_authority: Keypair
    faucet: Keypair
    hot_wallet: Keypair
    vault_owner: Keypair


def key_path(folder: Path, name: str) -> Path:
    return folder / "keys" / f"{name}.json"


def keys_load_or_create(folder: Path) -> NetworkKeys:
    """Read the keys of a data folder, making those that are missing.

    Raises:
        KeyFileRefused: a key file is damaged, not ours, or open to others.
    """
    (folder / "keys").mkdir(mode=0o700, parents=True, exist_ok=True)
    found = {}
    for field in fields(NetworkKeys):
        path = key_path(folder, field.name)
        if not path.exists():
            write_key_file(path, Keypair())
        found[field.name] = read_key_file(path)
    return NetworkKeys(**found)
