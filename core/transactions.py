"""Transactions of verbs that are often called within another's."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from django.db import transaction


def joined() -> AbstractContextManager[None]:
    """The caller's transaction, or one of its own where there is none.

    For verbs that raise before they have written anything: the savepoint of a nested ``atomic()`` would protect nothing, and
    costs two round trips. An error of the database still ends the whole transaction, as it must; who wants to go on after
    one takes a savepoint around the call.
    """
    return nullcontext() if transaction.get_connection().in_atomic_block else transaction.atomic()
