"""``fleet``: ten thousand agents for ten minutes; nobody who spoke is taken for offline, and those who fell silent are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.report import Report
from bench.stage import ROOT, Stage, doorbell, stage, web, worker_and_beat

MACHINES = int(os.environ.get("BENCH_FLEET_MACHINES", "10000"))
SECONDS = float(os.environ.get("BENCH_FLEET_SECONDS", "600"))
CORES = os.cpu_count() or 1
GPUS = 1
SILENT = 100
"""The control: they stop after half a minute and must be found offline, or the sweep was not looking."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_FLIPS = """
from reliability.models import Flip, MachineHealth
from providers.models import Machine
silent = set(Machine.objects.order_by("id").values_list("pk", flat=True)[:%d])
offline = list(Flip.objects.filter(to="offline").values_list("machine_id", flat=True))
suspect = Flip.objects.filter(to="suspect").exclude(machine_id__in=silent).count()
import json, sys
sys.stdout.write(json.dumps({
    "heard": MachineHealth.objects.count(), "suspect_falsely": suspect,
    "offline_falsely": len([pk for pk in offline if pk not in silent]), "offline_rightly": len(silent & set(offline)),
}))
"""


def fleet() -> Report:
    with stage() as on:
        machines = json.dumps(_machines(on))
        on.analyze()
        with (
            web(on, workers=CORES) as port,
            doorbell(on) as (bell_port, bell),
            worker_and_beat(on, queues="default,sweep"),
        ):
            assert bell.child is not None
            before = _memory(bell.child.pid)
            agents = subprocess.Popen(
                [sys.executable, "-m", "bench.agents", str(port), str(bell_port), str(SECONDS), str(SILENT)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            output, most = _watched(agents, machines, bell.child.pid)
            found = json.loads(on.python("manage.py", "shell", "-v0", "-c", _FLIPS % SILENT))
    met = json.loads(output)
    return Report(
        name="fleet",
        value=found["offline_falsely"],
        unit="machines",
        aim="<= 0",
        work=f"{MACHINES} agents for {SECONDS:.0f} s, {SILENT} of them fall silent; {CORES} web workers, one doorbell",
        baseline="none",
        rounds=[],
        detail=found | met | {"doorbell_bytes_per_bell": round((most - before) / max(1, met["bells"]))},
        conditions=(
            found["heard"] == MACHINES,
            found["offline_rightly"] == SILENT,
            met["bells"] == MACHINES,
            set(met["statuses"]) == {"200"},
        ),
    )


def _machines(on: Stage) -> list[dict[str, Any]]:
    """Made by as many processes as there are processors."""
    shares = [MACHINES // CORES + (number < MACHINES % CORES) for number in range(CORES)]

    def share(number: int) -> list[dict[str, Any]]:
        make = f"from bench.machines import make; make({shares[number]}, {GPUS}, part={number})"
        return list(json.loads(on.python("manage.py", "shell", "-v0", "-c", make)))

    with ThreadPoolExecutor(CORES) as makers:
        return [machine for made in makers.map(share, range(CORES)) for machine in made]


def _watched(agents: subprocess.Popen[str], machines: str, bell: int) -> tuple[str, int]:
    """The agents' output, and the most memory that the doorbell held meanwhile."""
    assert agents.stdin is not None and agents.stdout is not None
    agents.stdin.write(machines)
    agents.stdin.close()
    most = 0
    while agents.poll() is None:
        most = max(most, _memory(bell))
        try:
            agents.wait(1)
        except subprocess.TimeoutExpired:
            continue
    if agents.returncode != 0:
        raise RuntimeError(f"bench.agents ended with {agents.returncode}")
    return agents.stdout.read(), most


def _memory(process: int) -> int:
    """Resident bytes of a process and its children."""
    total = 0
    for number in (process, *_children(process)):
        total += int(Path(f"/proc/{number}/statm").read_text().split()[1]) * PAGE_BYTES
    return total


def _children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(number) for number in listed]
