"""Runtime of real hosts: one sandboxed container per attempt on a Docker Engine. The engine is the database.

It is spoken to through the guard (`agent/guard`), always: the guard prepares the workspace, and what it would refuse is
nothing that should be tried without it.
"""

import logging
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import requests
import urllib3
from docker.errors import APIError, DockerException, NotFound

from agent.config import GUARD_ADDRESS, Settings
from agent.confinement import (
    GUARD_COMPONENT,
    LABEL_ATTEMPT,
    LABEL_LOG_LIMIT,
    LABEL_MACHINE,
    UNPRIVILEGED_USER,
    WORKSPACE,
)
from agent.disk import Disk, disk_read
from agent.errors import AgentError
from agent.runtime import sandbox
from agent.runtime.base import (
    EngineFacts,
    EngineUnavailable,
    FoundJob,
    JobOrder,
    JobState,
    LogSlice,
    Observation,
    RuntimeRefused,
)
from agent.runtime.docker_answers import engine_away, event_action, has_component, instant, lines_mended
from agent.runtime.docker_errors import called, create_refused
from agent.runtime.docker_images import image_present, image_pull
from agent.runtime.egress import EgressProbe
from agent.runtime.image_cache import ImageCache
from agent.runtime.spool import LogSpool
from agent_protocol.images import ALLOWED_REGISTRIES

_TIMEOUT_S = 60
_LOG_DRAIN_S = 10.0
# The engine keeps this many events in memory, and only while it lives.
_ENGINE_EVENT_MEMORY = 256
# The engine writes a container's end down a moment before it says so.
_DIE_LOOKS = 3
_DIE_PAUSE_S = 0.2

log = logging.getLogger("agent.docker")


class DockerRuntime:
    """Containers are named `gpunex-job-<job>-<number>`, and found again by our labels after a restart."""

    poll_interval_s = 1.0
    # Longer than an engine waits for its containers when it shuts down (15 s unless configured otherwise).
    shutdown_patience_s = 20.0

    def __init__(self, settings: Settings, machine_id: str, disk: Callable[[Path], Disk | None] = disk_read) -> None:
        """`disk` reads the file system of a folder. Raises AgentError when the engine cannot be used."""
        self._machine_id = machine_id
        self._network = settings.job_network
        self._devices = settings.devices == "engine"
        self._registries = ALLOWED_REGISTRIES | settings.registries
        try:
            self._engine = docker.DockerClient(
                base_url=settings.docker_host or GUARD_ADDRESS, timeout=_TIMEOUT_S, version="auto"
            )
            version = self._engine.version()
        except (DockerException, requests.RequestException, OSError) as error:
            raise AgentError(
                f"--runtime docker: the engine does not answer ({type(error).__name__}). "
                "Are Docker Engine and gpunex-guard running, and may this user speak to the guard?"
            ) from None
        if has_component(version, "podman"):
            raise AgentError(
                "--runtime docker: found Podman, allowed: Docker Engine. Podman drops GPU requests without an error: "
                "a job would run on the processor and still end with exit code 0."
            )
        if not has_component(version, GUARD_COMPONENT.lower()):
            raise AgentError(
                f"--docker-host: found an engine without a guard, allowed: the socket of gpunex-guard ({GUARD_ADDRESS}). "
                "With the engine's own socket this agent would be root on the machine."
            )
        self._api = self._engine.api
        self._foreign_ends: dict[str, float] = {}
        self._spool = LogSpool(settings.state / "spool", self._log_stream)
        self._images = ImageCache(self._api, settings.state / "images.json", lambda: disk(settings.state))
        image = settings.egress_image
        self._egress = None if self._network == "none" or image is None else EgressProbe(self, image, machine_id)

    def facts(self) -> EngineFacts:
        info = called(self._engine.info)
        return EngineFacts(
            engine="docker",
            engine_version=info.get("ServerVersion"),
            operating_system=info.get("OperatingSystem"),
            kernel=info.get("KernelVersion"),
        )

    def available(self) -> bool:
        try:
            return bool(self._engine.ping())
        except (DockerException, requests.RequestException):
            return False

    def degraded(self) -> tuple[str, ...]:
        return () if self._egress is None else self._egress.degraded()

    # Image

    def image_present(self, image: str) -> bool:
        return image_present(self._api, image)

    def prepare(self, order: JobOrder, cancelled: Callable[[], bool]) -> str:
        return image_pull(self._api, order, self._registries, self._images, cancelled)

    # Life

    def start(self, order: JobOrder, image: str) -> None:
        if self._egress is not None:
            self._egress.require(order)
        try:
            container = self._existing(order.name) or self._create(order, image)
            if container["State"]["Status"] == "created":
                self._api.start(container["Id"])
        except APIError as error:
            if engine_away(error):
                raise EngineUnavailable(str(error.status_code)) from None
            refused = create_refused(error)
            # For the provider's eyes: this journal stays on the host.
            said = str(error.explanation)[:500]
            log.warning("the container was refused", extra={"job": order.name, "reason": refused.reason, "said": said})
            raise refused from None
        except (requests.RequestException, DockerException) as error:
            raise EngineUnavailable(type(error).__name__) from None
        self._spool.follow(order.name, order.plan.log_limit_bytes)

    def _existing(self, name: str) -> dict[str, Any] | None:
        """The container under this name if it is ours. A stranger's is a refusal: nothing of theirs is touched."""
        try:
            container: dict[str, Any] = self._api.inspect_container(name)
        except NotFound:
            return None
        if (container["Config"].get("Labels") or {}).get(LABEL_MACHINE) != self._machine_id:
            raise RuntimeRefused("container_create_failed", "name_taken")
        return container

    def _create(self, order: JobOrder, image: str) -> dict[str, Any]:
        config = self._api.inspect_image(image)["Config"] or {}
        volume = self._workspace_create(order)
        network = self._network_create(order)
        host_config = self._api.create_host_config(
            **sandbox.host_config(
                order,
                volume=volume,
                network=network,
                image_volumes=sorted(config.get("Volumes") or {}),
                devices=self._devices,
            )
        )
        try:
            self._api.create_container(
                image,
                command=list(order.plan.command) or None,
                name=order.name,
                user=UNPRIVILEGED_USER,
                working_dir=WORKSPACE,
                environment=sandbox.job_environment(order, config.get("Env") or [], devices=self._devices),
                labels=sandbox.labels(order),
                host_config=host_config,
                healthcheck=sandbox.NO_HEALTHCHECK,
            )
        except APIError as error:
            # Someone was faster: an earlier call of ours whose answer was lost.
            if error.status_code != 409:
                raise
        container = self._existing(order.name)
        if container is None:
            raise RuntimeRefused("container_create_failed", "vanished")
        return container

    def _workspace_create(self, order: JobOrder) -> str:
        """A volume bounded by the engine where its file system can, else watched by the attempt."""
        options = {"size": str(order.plan.limits.disk_bytes)} if order.plan.limits.disk_bytes else None
        for driver_options in (options, None):
            try:
                self._api.create_volume(
                    name=order.name, driver="local", driver_opts=driver_options, labels=sandbox.labels(order)
                )
                break
            except APIError as error:
                if driver_options is None:
                    raise
                log.debug("no quota on this file system", extra={"status": error.status_code})
        return order.name

    def _container_remove(self, name: str) -> None:
        try:
            self._api.remove_container(name, v=True, force=True)
        except NotFound:
            return

    def _network_create(self, order: JobOrder) -> str:
        if self._network == "none":
            return "none"
        try:
            self._api.create_network(
                order.name,
                driver="bridge",
                check_duplicate=True,
                labels=sandbox.labels(order),
                options=sandbox.network_options(order.name),
            )
        except APIError as error:
            if error.status_code != 409:
                raise
        return order.name

    def adopt(self, name: str, log_limit_bytes: int) -> None:
        self._spool.follow(name, log_limit_bytes)

    def observe(self, name: str) -> Observation:
        try:
            container = self._inspect(name)
        except NotFound:
            return Observation(state=JobState.MISSING)
        state = container["State"]
        if state["Status"] == "created":
            return Observation(state=JobState.CREATED)
        limit = int((container["Config"].get("Labels") or {}).get(LABEL_LOG_LIMIT, "0"))
        if state["Running"] or state["Status"] in ("restarting", "removing"):
            self._spool.follow(name, limit)
            return Observation(state=JobState.RUNNING, ran_s=time.time() - instant(state["StartedAt"]))
        self._spool.drain(name, limit, _LOG_DRAIN_S)
        return Observation(
            state=JobState.EXITED,
            exit_code=state["ExitCode"],
            oom_killed=bool(state.get("OOMKilled")),
            reason=self._foreign_reason(name, container),
            ran_s=max(0.0, instant(state["FinishedAt"]) - instant(state["StartedAt"])),
        )

    def _foreign_reason(self, name: str, container: dict[str, Any]) -> str | None:
        """Why it ended, when somebody else ended it; null when it ended by itself (or by our order).

        An engine that shuts down, or that finds a container running when it starts, sends it TERM: a job that traps it
        ends with exit code 0 and looks completed. The engine keeps its events in memory and forgets them when it
        restarts: `start` and `die` both remembered means that one engine saw the whole life. Where events are missing
        because too many followed, and with live-restore (engines come and go, containers stay), the exit is believed.
        """
        events = self._events_of(container)
        if events is not None and not {"start", "die"} <= {action for action, _ in events}:
            return "engine_restart"
        signals = {number for action, number in events or () if action == "kill"}
        if not signals:
            return None
        if signals - {str(int(signal.SIGKILL))}:
            # Perhaps the engine is shutting down right now, which shows in a moment.
            since = self._foreign_ends.setdefault(name, time.monotonic())
            if time.monotonic() - since < self.shutdown_patience_s:
                raise EngineUnavailable("the container was stopped by somebody else")
        return "unknown"

    def _events_of(self, container: dict[str, Any]) -> list[tuple[str, str]] | None:
        """(action, signal) of what the engine remembers of this container; null when its memory proves nothing."""
        if called(self._engine.info).get("LiveRestoreEnabled"):
            return None
        started = instant(container["State"]["StartedAt"])
        ours: list[tuple[str, str]] = []
        for _ in range(_DIE_LOOKS):
            remembered = called(self._events_between, started - 1.0, time.time())
            ours = [
                event_action(event) for event in remembered if (event.get("Actor") or {}).get("ID") == container["Id"]
            ]
            if any(action == "die" for action, _ in ours):
                break
            time.sleep(_DIE_PAUSE_S)
        return None if len(remembered) >= _ENGINE_EVENT_MEMORY else ours

    def _events_between(self, since: float, until: float) -> list[dict[str, Any]]:
        return list(self._api.events(since=f"{since:.9f}", until=f"{until:.9f}", decode=True))

    def terminate(self, name: str) -> None:
        self._signal(name, "SIGTERM")

    def kill(self, name: str) -> None:
        self._signal(name, "SIGKILL")

    def _signal(self, name: str, number: str) -> None:
        try:
            self._api.kill(name, signal=number)
        except NotFound:
            return
        except APIError as error:
            # 409: it has ended already.
            if error.status_code != 409:
                raise EngineUnavailable(str(error.status_code)) from None
        except (requests.RequestException, DockerException) as error:
            raise EngineUnavailable(type(error).__name__) from None

    # Afterwards

    def log_read(self, name: str, offset: int, limit: int) -> LogSlice:
        return self._spool.read(name, offset, limit)

    def disk_used_bytes(self, name: str) -> int | None:
        for volume in called(self._api.df).get("Volumes") or ():
            if volume["Name"] == name:
                size = (volume.get("UsageData") or {}).get("Size")
                return size if isinstance(size, int) and size >= 0 else None
        return None

    def release(self, name: str) -> None:
        self._spool.finish(name)
        self._images.let_go(name)
        for remove in (
            lambda: self._container_remove(name),
            lambda: self._api.remove_volume(name, force=True),
            lambda: self._api.remove_network(name),
        ):
            try:
                remove()
            except NotFound:
                continue
            except APIError as error:
                # 409: it is being removed at this moment.
                if error.status_code != 409:
                    raise EngineUnavailable(str(error.status_code)) from None
            except (requests.RequestException, DockerException) as error:
                raise EngineUnavailable(type(error).__name__) from None

    def forget(self, name: str) -> None:
        self._foreign_ends.pop(name, None)
        self._spool.remove(name)

    def found(self) -> list[FoundJob]:
        mark = f"{LABEL_MACHINE}={self._machine_id}"
        jobs = []
        for container in called(self._api.containers, all=True, filters={"label": mark}):
            names = [name.lstrip("/") for name in container["Names"] if name.count("/") == 1]
            attempt_id = (container.get("Labels") or {}).get(LABEL_ATTEMPT)
            jobs += [FoundJob(name=name, attempt_id=attempt_id) for name in names[:1]]
        return [job for job in jobs if job.name not in self._probes()]

    def leftovers(self) -> list[str]:
        mine = {"label": f"{LABEL_MACHINE}={self._machine_id}"}
        volumes = called(self._api.volumes, filters=mine).get("Volumes") or []
        names = {each["Name"] for each in [*volumes, *called(self._api.networks, filters=mine)]}
        # Looked for afterwards: what was made meanwhile has its container's name in the agent's records.
        return sorted(names - {job.name for job in self.found()} - self._probes())

    def tidy(self) -> None:
        self._images.tidy()

    def _probes(self) -> set[str]:
        return set() if self._egress is None else set(self._egress.names)

    def close(self) -> None:
        self._engine.close()

    def _inspect(self, name: str) -> dict[str, Any]:
        try:
            container: dict[str, Any] = self._api.inspect_container(name)
        except NotFound:
            raise
        except (requests.RequestException, DockerException) as error:
            raise EngineUnavailable(type(error).__name__) from None
        return container

    def _log_stream(self, name: str) -> Iterator[bytes]:
        try:
            yield from lines_mended(self._api.logs(name, stdout=True, stderr=True, stream=True, follow=True))
        except (requests.RequestException, urllib3.exceptions.HTTPError, DockerException, OSError) as error:
            raise EngineUnavailable(type(error).__name__) from None
