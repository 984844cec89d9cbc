"""What cards say, replayed through the fake library, the child process, the probe and the platform's judgement."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from accounts.models import User
from agent.probe.kernel import KernelLog
from agent.probe.nvml import NvmlProbe
from agent_protocol.messages import Host, Inventory
from agent_protocol.reasons import THROTTLE_BITS
from core import clock
from providers.models import Gpu
from providers.services import machine_inventory_record
from tests.agent import captures, nvml
from tests.agent.captures import Answer
from tests.factories.providers import groups, machine_make, provider_make

pytestmark = pytest.mark.compiler
ANSWERS = captures.answers()


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in nvml.environment(tmp_path / "nvml.state").items():
        monkeypatch.setenv(name, value)
    return tmp_path / "nvml.state"


@pytest.fixture
def probe(tmp_path: Path, state: Path) -> Iterator[NvmlProbe]:
    made = NvmlProbe(driver_folder=tmp_path / "driver", kernel_log=KernelLog(None))
    yield made
    made.close()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_every_figure_arrives_and_what_a_card_does_not_say_is_null(
    probe: NvmlProbe, state: Path, answer: Answer
) -> None:
    row, uuid = answer.row, "GPU-99999999-0000-0000-0000-000000000001"
    head = f"driver {row['driver_version']}\ncuda 13010\n"
    nvml.write(state, head, captures.card(row, uuid=uuid, running=answer.processes))
    reading = probe.read()
    (gpu,), (telemetry,) = reading.gpus, reading.telemetry
    assert (reading.driver_version, reading.cuda_version, reading.degraded) == (row["driver_version"], "13.1", ())
    assert (gpu.uuid, gpu.name, gpu.vbios, gpu.health) == (uuid, row["name"], row["vbios_version"], "ok")
    assert gpu.memory_bytes == int(row["memory.total"].split()[0]) * captures.MIB
    assert gpu.pcie_generation == int(row["pcie.link.gen.max"])
    assert gpu.pcie_width == int(row["pcie.link.width.max"])
    assert gpu.power_limit_w == captures.number(row["enforced.power.limit"])
    words = {"Enabled": True, "Disabled": False, "[N/A]": None}
    assert gpu.ecc_enabled is words[row["ecc.mode.current"]]
    assert gpu.mig_enabled is words[row["mig.mode.current"]]
    columns = {"ecc_enabled": "ecc.mode.current", "mig_enabled": "mig.mode.current"}
    silent = {name: "not_supported" for name, column in columns.items() if row[column] == "[N/A]"}
    assert gpu.reasons == silent
    assert telemetry.utilization_percent == captures.number(row["utilization.gpu"])
    assert telemetry.temperature_c == captures.number(row["temperature.gpu"])
    assert telemetry.power_w == captures.number(row["power.draw"])
    assert telemetry.memory_used_bytes == int(row["memory.used"].split()[0]) * captures.MIB
    assert telemetry.foreign_processes == answer.processes
    mask = int(row["clocks_event_reasons.active"], 16)
    assert telemetry.throttle_reasons == tuple(code for bit, code in THROTTLE_BITS.items() if mask & bit)


def test_a_rack_of_all_of_them_in_any_order_is_the_same_rack(probe: NvmlProbe, state: Path) -> None:
    cards = [
        captures.card(answer.row | {"pci.bus_id": f"00000000:{number:02X}:00.0"}, uuid=f"GPU-{number}")
        for number, answer in enumerate(ANSWERS, 1)
    ]
    seen = []
    for order in (cards, cards[::-1]):
        nvml.write(state, nvml.HEAD, *order)
        reading = probe.read()
        seen.append({gpu.uuid: gpu for gpu in reading.gpus})
        assert {each.uuid for each in reading.telemetry} == set(seen[-1])
    assert seen[0] == seen[1]
    assert [gpu.name for gpu in seen[0].values()] == [answer.row["name"] for answer in ANSWERS]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_the_platform_offers_whole_known_cards_only(
    db: None, ada: User, olga: User, probe: NvmlProbe, state: Path, answer: Answer
) -> None:
    approved = {"NVIDIA L4": "l4-24gb", "NVIDIA L40S": "l40s-48gb", "NVIDIA H100 80GB HBM3": "h100-sxm-80gb"}
    provider = provider_make(ada, reviewer=olga, gpus=groups(*((slug, 1) for slug in approved.values())))
    machine = machine_make(provider, gpus=[])
    nvml.write(state, nvml.HEAD, captures.card(answer.row, uuid="GPU-1"))
    reading = probe.read()
    inventory = Inventory(host=Host(architecture="x86_64"), gpus=reading.gpus)
    machine_inventory_record(machine=machine, inventory=inventory, now=clock.now())
    gpu = Gpu.objects.get()
    if answer.row["mig.mode.current"] == "Enabled":
        expected = ("unavailable", "mig", None)
    elif answer.row["name"] in approved:
        expected = ("active", "", approved[answer.row["name"]])
    elif answer.row["name"] == "NVIDIA GeForce RTX 4090":
        expected = ("needs_review", "not_approved", "rtx-4090-24gb")
    else:
        expected = ("needs_review", "unknown_model", None)
    model = gpu.model.slug if gpu.model and gpu.reason != "mig" else None
    assert (gpu.status, gpu.reason, model) == expected
    assert gpu.reported_name == answer.row["name"]
