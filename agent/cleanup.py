"""`agent stop-jobs`: ends what a stopped agent left running, for an uninstall or the end of a demonstration."""

import time
from dataclasses import replace

from agent.config import Settings
from agent.errors import AgentError
from agent.registry import runtime_make
from agent.runtime.base import JobRuntime, JobState
from agent.state import StateStore

# The platform reads it as the provider's doing, which it is.
STOP_REASON = "host_restart"
_PATIENCE_S = 10.0
_POLL_S = 0.05


def jobs_stop(settings: Settings) -> int:
    """TERM, the grace, KILL for every job of this state folder; how many there were. Raises AgentError.

    Why they end is written down first, so that the next agent of this folder reports it.
    """
    store = StateStore(settings.state)
    try:
        identity = store.identity_get()
        if identity is None or identity.machine_id is None:
            return 0
        runtime = runtime_make(replace(settings, url=identity.url), identity.machine_id)
        names = [job.name for job in runtime.found()]
        running = [name for name in names if runtime.observe(name).state is JobState.RUNNING]
        for record in store.attempts():
            if record.name in running and record.stop_reason is None:
                store.attempt_put(replace(record, state="stopping", stop_reason=STOP_REASON))
        for name in running:
            runtime.terminate(name)
        left = _wait(runtime, running, settings.stop_grace_s)
        for name in left:
            runtime.kill(name)
        if _wait(runtime, left, _PATIENCE_S):
            raise AgentError("some jobs could not be ended")
        return len(running)
    finally:
        store.close()


def _wait(runtime: JobRuntime, names: list[str], seconds: float) -> list[str]:
    """Those that still run after that time."""
    deadline = time.monotonic() + seconds
    while True:
        names = [name for name in names if runtime.observe(name).state is JobState.RUNNING]
        if not names or time.monotonic() >= deadline:
            return names
        time.sleep(_POLL_S)
