"""Private key files in the Solana command line's format: a JSON list of 64 numbers."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from solders.keypair import Keypair

from billing.chain.errors import KeyFileRefused

SAFE_MODES = (0o400, 0o600)
KEY_FILE_BYTES_MAX = 1_000  # 64 numbers of up to three digits take about 300


def read_key_file(path: Path) -> Keypair:
    """Load a key from a regular file (no link) that is ours and readable by nobody else.

    Raises:
        KeyFileRefused: naming what is wrong with the file; never its content.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise KeyFileRefused(f"{path}: {error.strerror}") from error
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise KeyFileRefused(f"{path}: not a regular file")
        if facts.st_uid != os.geteuid():
            raise KeyFileRefused(f"{path}: owned by user {facts.st_uid}, must be {os.geteuid()}")
        if stat.S_IMODE(facts.st_mode) not in SAFE_MODES:
            raise KeyFileRefused(f"{path}: mode {stat.S_IMODE(facts.st_mode):04o}, allowed 0400 or 0600")
        content = os.read(handle, KEY_FILE_BYTES_MAX)
    finally:
        os.close(handle)
    try:
        return Keypair.from_bytes(bytes(json.loads(content)))
    except (TypeError, ValueError):
        raise KeyFileRefused(f"{path}: not a JSON list of 64 bytes that form a key pair") from None


def write_key_file(path: Path, keypair: Keypair) -> None:
    """Write a new key file, mode 0600. An existing file is never overwritten.

    Raises:
        FileExistsError: there is a file already.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(json.dumps(list(bytes(keypair))))
        file.flush()
        os.fsync(file.fileno())
