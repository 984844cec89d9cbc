"""``start``: from the click that submits a job to the moment its agent has the container created, the bell being on.

It is told in three parts: until the job is written down, until the scheduler takes it up, until the agent has its order.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.report import Report, median
from bench.stage import ROOT
from gpunex.embedded import free_port
from tour.guide import Guide
from tour.visitor import NotSeen

JOBS = 30
PROVIDER, MODEL, AGENT_LOG = "ada-compute", "l4-24gb", "host-ada-2.log"
READY_SECONDS = 300.0
STOP_SECONDS = 60.0
QUIET_SECONDS = 20.0
"""A demo that has just started measures its cards, which keeps worker and web busy: so long without another end of a
measurement, and it is over. Each takes a second or two."""
PARTS = ("submit_ms", "queue_ms", "agent_ms")


def start() -> Report:
    with marketplace() as data:
        guide = Guide.of(None, data)
        listing = guide.until("Ada's card is in the market", lambda: _listing(guide), seconds=READY_SECONDS)
        _measured_wait(data)
        parts = [_one(guide, listing, data) for _ in range(JOBS)]
    waits = sorted(sum(each) for each in parts)
    medians = {name: round(median([each[number] for each in parts]), 1) for number, name in enumerate(PARTS)}
    return Report(
        name="start",
        value=round(median(waits), 1),
        unit="ms",
        aim="<= 150",
        work="a job submitted by a form → its agent orders the container; whole marketplace, beside the demo's own jobs",
        baseline="none",
        rounds=[{"ms": round(wait, 1)} for wait in waits],
        detail={"p50_ms": round(median(waits), 1), "p90_ms": round(waits[len(waits) * 9 // 10], 1), "jobs": JOBS}
        | medians,
    )


@contextmanager
def marketplace() -> Iterator[Path]:
    """A whole marketplace in a folder of its own, as bin/start runs it."""
    folder = Path(tempfile.mkdtemp(prefix="gpunex-bench-"))
    folder.chmod(0o711)
    command = [sys.executable, "-m", "gpunex.starter", "--port", str(free_port()), "--data", str(folder / "data")]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert running.stdout is not None
        said = []
        for line in running.stdout:
            said.append(line)
            if line.startswith("Stop with"):
                break
        else:
            raise RuntimeError("".join(said))
        yield folder / "data"
    finally:
        running.terminate()
        running.wait(STOP_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def _listing(guide: Guide) -> str | None:
    rows: list[dict[str, Any]] = guide.visitor("ravi").api("market/listings", model=MODEL, limit="100")["listings"]
    return next((str(row["id"]) for row in rows if row["provider"] == PROVIDER and row["gpus_free"]), None)


def _measured_wait(data: Path) -> None:
    """Until the demo's machines have measured their cards."""
    seen, since, deadline = -1, time.monotonic(), time.monotonic() + READY_SECONDS
    while time.monotonic() - since < QUIET_SECONDS:
        if time.monotonic() > deadline:
            raise NotSeen(f"not within {READY_SECONDS:.0f} s: the demo's benchmarks are done")
        found = sum(path.read_text().count('"benchmark ') for path in (data / "logs").glob("host-*.log"))
        if found != seen:
            seen, since = found, time.monotonic()
        time.sleep(1.0)


def _one(guide: Guide, listing: str, data: Path) -> tuple[float, float, float]:
    """Milliseconds of each part from the click to the agent's order."""
    ravi = guide.visitor("ravi")
    page = ravi.get(f"/jobs/new/?listing={listing}")
    form = page.form("image")
    clicked = time.time()
    page = ravi.submit(page, form, name="bench", image="busybox:1", command="true", gpu_count="1", time_limit_s="0.1")
    found = re.search(r"/jobs/([0-9a-f-]{36})/", page.url)
    if found is None:
        raise NotSeen(f"the job was not taken: {page.text[:800]}")
    job = guide.until("the job ends", lambda: _ended(ravi.api(f"jobs/{found[1]}")), seconds=READY_SECONDS)
    if job["status"] != "succeeded":
        raise NotSeen(f"the job ended as {job['status']} ({job['reason']})")
    taken = datetime.fromisoformat(job["queued_at"]).timestamp()
    placed = datetime.fromisoformat(job["attempts"][0]["created_at"]).timestamp()
    return 1000 * (taken - clicked), 1000 * (placed - taken), 1000 * (_ordered_at(data, found[1]) - placed)


def _ended(job: dict[str, Any]) -> dict[str, Any] | None:
    return job if job["status"] in ("succeeded", "failed", "cancelled", "lost") else None


def _ordered_at(data: Path, job_id: str) -> float:
    """Seconds of the epoch at which the agent's journal says that the job's first attempt was being started."""
    for line in (data / "logs" / AGENT_LOG).read_text().splitlines():
        entry = json.loads(line) if line.startswith("{") else {}
        if entry.get("event") == "starting" and job_id in str(entry.get("job", "")):
            return datetime.fromisoformat(entry["time"]).timestamp()
    raise NotSeen(f"{AGENT_LOG} does not say when job {job_id} was started")
