"""Everything that touches Solana: the client, the transactions, the signer, the readers and the local network.

This package is the only importer of `solders`. It needs neither Django nor a database, speaks in `str` (base58
addresses, signatures, blockhashes), `bytes` and `int` (micro-USDC, lamports), and never decides about money: it
reports what a node said, builds bytes, and refuses bytes that are not ours.
"""
