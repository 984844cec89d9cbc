"""Puts the parts of a running agent together, and takes them apart in order."""

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack

from agent.attempts import AttemptContext
from agent.bell import BellFollower
from agent.benchmarks import BenchmarkManager
from agent.client import PlatformClient
from agent.config import Settings
from agent.contact import Contact
from agent.enrolment import identity_ensure, identity_renew
from agent.errors import ExitCode
from agent.host import host_read
from agent.leases import GpuLeases
from agent.logship import LogShipper
from agent.outbox import OutboxSender
from agent.pacing import Alarm
from agent.reconciler import Reconciler
from agent.registry import benchmark_make, probe_make, runtime_make
from agent.runtime.base import EngineFacts
from agent.state import StateStore
from agent.sync import SyncLoop, SyncParts
from agent.watch import HostWatch
from agent_protocol.version import AGENT_VERSION

# Threads get this long to finish what they are in; bin/start and Docker both allow ten seconds in all.
_JOIN_S = 2.0
_LOOK_S = 0.25

log = logging.getLogger("agent")


def serve(settings: Settings, stop: threading.Event) -> ExitCode:
    """Run until `stop` is set or the machine is revoked; the exit code. Jobs go on running. Raises AgentError."""
    with ExitStack() as stack:
        store = StateStore(settings.state)
        stack.callback(store.close)
        client = PlatformClient(settings.url)
        stack.callback(client.close)
        probe = probe_make(settings)
        stack.callback(probe.close)
        sync_alarm, outbox_alarm, log_alarm = Alarm(stop), Alarm(stop), Alarm(stop)
        watch = HostWatch(settings, probe, store, sync_alarm)
        watch.look()
        inventory = watch.inventory()
        assert inventory is not None
        identity = identity_ensure(settings, store, client, inventory.host, simulated=probe.simulated, stop=stop)
        if identity is None or identity.machine_id is None:
            return ExitCode.CLEAN
        runtime = runtime_make(settings, identity.machine_id)
        stack.callback(runtime.close)
        watch.runtime_set(runtime)
        watch.look()

        def changed() -> None:
            for alarm in (outbox_alarm, log_alarm, sync_alarm):
                alarm.ring()

        leases = GpuLeases(watch.busy)
        contact = Contact(store)
        runner = benchmark_make(settings, client, runtime, identity.machine_id)
        benchmarks = BenchmarkManager(runner, store, leases, watch, changed, stop)
        context = AttemptContext(
            store,
            runtime,
            watch,
            leases,
            contact,
            client.secrets,
            changed,
            stop,
            settings.stop_grace_s,
            identity.machine_id,
        )
        reconciler = Reconciler(context, benchmarks)
        loop = SyncLoop(
            SyncParts(client, store, watch, reconciler, benchmarks, contact), sync_alarm, stop, settings.sync_interval_s
        )
        log.info("started", extra={"machine_id": identity.machine_id, "version": AGENT_VERSION})
        reconciler.recover()
        failed = threading.Event()
        threads = _threads_start(
            failed,
            {
                "sync": loop.run,
                "bell": BellFollower(client, loop, sync_alarm, stop).run,
                "outbox": OutboxSender(client, store, outbox_alarm, sync_alarm, stop).run,
                "logs": LogShipper(client, store, runtime, log_alarm, stop).run,
                "watch": lambda: watch.run(stop),
                "housekeeper": lambda: reconciler.sweep_run(stop),
            },
        )
        code = _wait(stop, failed, loop, reconciler)
        stop.set()
        changed()
        reconciler.wake()
        for name, thread in threads.items():
            # The bell waits for bytes that may never come; it is a daemon and ends with the process.
            if name != "bell":
                thread.join(_JOIN_S)
        reconciler.join(_JOIN_S)
        log.info("stopped", extra={"code": int(code)})
        return code


def machine_renew(settings: Settings, stop: threading.Event) -> str | None:
    """Enrol the folder's machine anew; its id, or null when stopped before the answer. Raises AgentError."""
    with ExitStack() as stack:
        store = StateStore(settings.state)
        stack.callback(store.close)
        client = PlatformClient(settings.url)
        stack.callback(client.close)
        probe = probe_make(settings)
        stack.callback(probe.close)
        host = host_read(settings, EngineFacts(), None, None)
        identity = identity_renew(settings, store, client, host, simulated=probe.simulated, stop=stop)
        return None if identity is None else identity.machine_id


def _threads_start(failed: threading.Event, targets: dict[str, Callable[[], None]]) -> dict[str, threading.Thread]:
    threads = {
        name: threading.Thread(target=_guarded(name, run, failed), name=name, daemon=True)
        for name, run in targets.items()
    }
    for thread in threads.values():
        thread.start()
    return threads


def _guarded(name: str, run: Callable[[], None], failed: threading.Event) -> Callable[[], None]:
    """A thread that dies of a fault would leave a host that only looks alive; the process ends and is restarted."""

    def guarded() -> None:
        try:
            run()
        except Exception:
            log.exception("a thread failed", extra={"thread_name": name})
            failed.set()

    return guarded


def _wait(stop: threading.Event, failed: threading.Event, loop: SyncLoop, reconciler: Reconciler) -> ExitCode:
    """Until stopped, until a thread has failed, or until a revoked machine's last attempt has ended after its grace."""
    while not stop.wait(_LOOK_S):
        if failed.is_set():
            return ExitCode.FAULT
        if loop.revoked.is_set() and reconciler.active() == 0:
            return ExitCode.REVOKED
    return ExitCode.CLEAN
