"""POST /agent/v1/bench/<run_id>/…: the challenge of a benchmark, and bytes to measure the line with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse

from agent_protocol.messages import (
    MAX_BLOB_BYTES,
    NONCE_HEADER,
    BenchCommit,
    BenchCommitted,
    BenchDownload,
    BenchOpen,
    BenchOpened,
    BenchRow,
    BenchStart,
    BenchStarted,
    BenchUploaded,
)
from benchmarks.services import proof_commit, proof_open, proof_start, run_on_host_check
from core import clock
from core.limits import limit_take
from gpunex.agent_door import TooLarge, agent_view, read, session_of

BLOBS_PER_RUN = 64
"""Transfers each way and run: with MAX_BLOB_BYTES each, 2 GiB, which is ten seconds of a fast line."""
BLOB_PERIOD_SECONDS = 3600
CHUNK_BYTES = 64 * 1024
RANDOM_BYTES = 1024 * 1024


@agent_view
def start(request: HttpRequest, run_id: UUID) -> HttpResponse:
    session = session_of(request)
    proof = proof_start(machine=session.machine, run_id=run_id, start=read(request, BenchStart), now=clock.now())
    return JsonResponse(BenchStarted(seed=proof.seed).to_dict())


@agent_view
def commit(request: HttpRequest, run_id: UUID) -> HttpResponse:
    now = clock.now()  # before the body is read apart: that is our time, not the host's
    session = session_of(request)
    proof = proof_commit(machine=session.machine, run_id=run_id, commit=read(request, BenchCommit), now=now)
    rows = tuple(BenchRow(round=each, row=row) for each, row in proof.rows)
    return JsonResponse(BenchCommitted(openings=rows).to_dict())


@agent_view
def opened(request: HttpRequest, run_id: UUID) -> HttpResponse:
    session = session_of(request)
    proof = proof_open(machine=session.machine, run_id=run_id, opening=read(request, BenchOpen), now=clock.now())
    return JsonResponse(BenchOpened(rows=len(proof.rows)).to_dict())


@agent_view
def download(request: HttpRequest, run_id: UUID) -> HttpResponse | StreamingHttpResponse:
    session = session_of(request)
    wanted = read(request, BenchDownload)
    run_on_host_check(machine=session.machine, run_id=run_id, nonce=wanted.nonce)
    limit_take(f"bench-download:{run_id}", limit=BLOBS_PER_RUN, seconds=BLOB_PERIOD_SECONDS)
    answer = StreamingHttpResponse(_random_bytes(wanted.size_bytes), content_type="application/octet-stream")
    answer["Content-Length"] = str(wanted.size_bytes)
    return answer


@agent_view
def upload(request: HttpRequest, run_id: UUID) -> HttpResponse:
    session = session_of(request)
    run_on_host_check(machine=session.machine, run_id=run_id, nonce=request.headers.get(NONCE_HEADER, ""))
    limit_take(f"bench-upload:{run_id}", limit=BLOBS_PER_RUN, seconds=BLOB_PERIOD_SECONDS)
    return JsonResponse(BenchUploaded(received_bytes=_count(request)).to_dict())


def _count(request: HttpRequest) -> int:
    """Read the body away, in pieces. Raises TooLarge as soon as it is."""
    received = 0
    while piece := request.read(CHUNK_BYTES):
        received += len(piece)
        if received > MAX_BLOB_BYTES:
            raise TooLarge(f"The body is longer than {MAX_BLOB_BYTES} bytes.")
    return received


@cache
def _random_block() -> bytes:
    """Random once per process: no compressor on the way sees back so far."""
    return os.urandom(RANDOM_BYTES)


def _random_bytes(size: int) -> Iterator[bytes]:
    block = memoryview(_random_block())
    while size > 0:
        for first in range(0, RANDOM_BYTES, CHUNK_BYTES):
            piece = block[first : first + min(CHUNK_BYTES, size)]
            if piece:
                yield bytes(piece)
            size -= len(piece)
            if size <= 0:
                return
