"""Jobs with a network on a real Docker Engine, which has a network namespace and a packet filter of its own."""

from collections.abc import Iterator
from typing import Any

import pytest

from agent.config import Settings
from agent.errors import AgentError
from tests.agent import agent_image
from tests.agent.docker_engine import DockerEngine
from tests.agent.host import AgentHost, attempt_body, ended
from tests.agent.network import NFT, RULES, Namespace
from tests.agent.platform import FakePlatform
from tests.agent.registry import FakeRegistry
from tests.agent.waiting import eventually

pytestmark = [pytest.mark.engine, pytest.mark.netfilter]


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """A host with a way out that leads nowhere."""
    made = Namespace()
    made.run("ip link add wan type veth peer name beyond")
    made.run("ip link set beyond up")
    made.run("ip address add 5.5.5.5/24 dev wan")
    made.run("ip link set wan up")
    made.run("ip route add default via 5.5.5.1")
    yield made
    made.close()


@pytest.fixture
def registry(namespace: Namespace) -> Iterator[FakeRegistry]:
    """On the loopback of that host."""
    made = namespace.call(FakeRegistry)
    yield made
    made.close()


@pytest.fixture
def engine(namespace: Namespace, registry: FakeRegistry) -> Iterator[DockerEngine]:
    made = DockerEngine(registries=(registry.name,), guard_options=("--job-network", "bridge"))
    namespace.call(made.start)
    yield made
    made.close()


def test_a_job_gets_a_network_only_behind_the_rules(
    platform: FakePlatform, host: AgentHost, engine: DockerEngine, namespace: Namespace, registry: FakeRegistry
) -> None:
    digest = registry.put(agent_image.layer(), agent_image.config("agent"))
    host.options |= {
        "--runtime": "docker",
        "--docker-host": engine.guard_address,
        "--allow-registry": registry.name,
        "--job-network": "bridge",
        "--egress-image": f"{registry.name}/agent@{digest}",
    }

    def job() -> dict[str, Any]:
        body = attempt_body("ls /sys/class/net", image=f"{registry.name}/busybox:1", gpu_uuids=[])
        platform.plan_put("attempt", body)
        return body

    namespace.run(f"{NFT} -f {RULES}")
    host.start()
    first = job()
    assert ended(platform, first, timeout_s=120)["reason"] == "completed", host.journal()
    assert b"eth0" in platform.log(first["attempt_id"])
    assert platform.last_sync().degraded == ()

    namespace.run(f"{NFT} delete table inet gpunex")
    host.terminate()
    host.start()  # a new agent looks at once; one that runs looks again when its last probe is no longer fresh
    eventually(lambda: platform.last_sync().degraded == ("egress_unguarded",), "it says so", timeout_s=120)
    second = job()
    assert ended(platform, second, timeout_s=120)["reason"] == "egress_unguarded"
    assert platform.log(second["attempt_id"]) == b"", "it never ran"

    namespace.run(f"{NFT} -f {RULES}")
    host.terminate()
    host.start()
    assert ended(platform, job(), timeout_s=120)["reason"] == "completed"
    eventually(lambda: platform.last_sync().degraded == (), "it takes jobs again", timeout_s=120)
    assert platform.events_of("orphan") == []
    client = engine.client()
    eventually(lambda: client.api.containers(all=True) == client.volumes.list() == [], "nothing is left", timeout_s=60)
    eventually(lambda: "gpx" not in namespace.run("ip link show"), "no bridge is left", timeout_s=60)
    client.close()


def test_a_network_without_a_probe_is_refused() -> None:
    settings = Settings(
        url="https://gpunex.example", state=RULES.parent, runtime="docker", probe="nvml", job_network="bridge"
    )
    with pytest.raises(AgentError, match="--egress-image"):
        settings.check()
