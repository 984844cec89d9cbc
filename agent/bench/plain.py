"""The challenge answered in plain Python: for simulated cards, whose matrices are tiny."""

from dataclasses import dataclass

from agent_protocol.challenge import (
    entry,
    keys_of,
    line,
    merkle_path,
    merkle_root,
    row_leaf,
    row_pack,
    seed_first,
    seed_next,
)


@dataclass(frozen=True)
class PlainChain:
    """leaves[round][row]."""

    roots: tuple[bytes, ...]
    leaves: tuple[tuple[bytes, ...], ...]

    def opening(self, number: int, row: int) -> tuple[bytes, list[bytes]]:
        """Leaf and path of a row of a round."""
        return self.leaves[number][row], merkle_path(self.leaves[number], row)


def product_plain(seed: bytes, n: int) -> list[list[int]]:
    """The whole product of a round; n³ steps."""
    keys = keys_of(seed)
    a_columns = [line(keys.a_column, index) for index in range(n)]
    b_rows = [line(keys.b_row, index) for index in range(n)]
    b_columns = [line(keys.b_column, index) for index in range(n)]
    # Columns of B, so that an entry of the product is one sum over two lists.
    columns = [[entry(row, column) for row in b_rows] for column in b_columns]
    product = []
    for index in range(n):
        own = line(keys.a_row, index)
        a_row = [entry(own, column) for column in a_columns]
        product.append([sum(x * y for x, y in zip(a_row, column, strict=True)) for column in columns])
    return product


def chain_plain(*, nonce: str, seed: str, n: int, rounds: int) -> PlainChain:
    """All rounds of a challenge."""
    current = seed_first(nonce, seed)
    roots, leaves = [], []
    for _ in range(rounds):
        leaves.append(tuple(row_leaf(row_pack(row)) for row in product_plain(current, n)))
        roots.append(merkle_root(leaves[-1]))
        current = seed_next(current, roots[-1])
    return PlainChain(tuple(roots), tuple(leaves))
