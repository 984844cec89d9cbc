"""A message is read as it was written, and a bad one is refused with the field's name."""

import copy
import json
from typing import Any

import pytest

from agent_protocol import messages as wire
from agent_protocol.errors import ProtocolError
from agent_protocol.fields import MAX_BODY_BYTES, json_read, json_write
from tests.agent_protocol import samples


@pytest.mark.parametrize(("message", "body"), samples.SAMPLES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_message_survives_the_wire(message: type[Any], body: dict[str, Any]) -> None:
    travelled = json_read(json_write(message.parse(body).to_dict()))
    assert travelled == body
    assert message.parse(travelled) == message.parse(body)


@pytest.mark.parametrize(("message", "body"), samples.SAMPLES, ids=lambda value: getattr(value, "__name__", ""))
def test_each_field_is_checked(message: type[Any], body: dict[str, Any]) -> None:
    for name in body:
        for wrong in (object(), [object()], {"\x00": 1}, float("nan"), "\x00", "\ud800", -(2**70), 2**70, True):
            if _legitimate(message, name, wrong):
                continue
            bad = copy.deepcopy(body)
            bad[name] = wrong
            with pytest.raises(ProtocolError) as caught:
                message.parse(bad)
            assert caught.value.field.split(".")[0] == name
            assert caught.value.allowed


def _legitimate(message: type[Any], name: str, value: object) -> bool:
    """True is a boolean; an object of anything is left to whoever reads it later."""
    if value is True:
        ours = {
            "simulated",
            "final",
            "oom_killed",
            "inventory_wanted",
            "ecc_enabled",
            "mig_enabled",
            "rotate_credential",
            "started",
            "secrets",
            "private_image",
        }
        return name in ours
    return message is wire.RefusalReply and name == "fields" and isinstance(value, dict)


@pytest.mark.parametrize(
    ("message", "body", "path", "value", "field"),
    [
        (wire.SyncRequest, samples.SYNC_REQUEST, ("attempts", 0, "state"), "flying", "attempts.0.state"),
        (wire.SyncRequest, samples.SYNC_REQUEST, ("inventory", "gpus", 0, "uuid"), "0", "inventory.gpus.0.uuid"),
        (wire.SyncRequest, samples.SYNC_REQUEST, ("degraded", 0), "tired", "degraded.0"),
        (wire.SyncRequest, samples.SYNC_REQUEST, ("protocol",), 2, "protocol"),
        (wire.SyncRequest, samples.SYNC_REQUEST, ("sequence",), 1.0, "sequence"),
        (wire.SyncRequest, samples.SYNC_REQUEST, ("telemetry", 0, "utilization_percent"), 101, None),
        (wire.SyncRequest, samples.SYNC_REQUEST, ("telemetry", 0, "power_w"), float("inf"), None),
        (wire.EnrolRequest, samples.ENROL_REQUEST, ("credential",), "gpxa_short", "credential"),
        (wire.EnrolRequest, samples.ENROL_REQUEST, ("idempotency_key",), "1", "idempotency_key"),
        (wire.AttemptPlan, samples.ATTEMPT_PLAN, ("environment",), {"A-B": "1"}, "environment"),
        (wire.AttemptPlan, samples.ATTEMPT_PLAN, ("gpu_uuids",), [samples.GPU_UUID] * 2, "gpu_uuids"),
        (wire.AttemptPlan, samples.ATTEMPT_PLAN, ("time_limit_s",), 0, "time_limit_s"),
        (wire.LogChunk, {"token": "t", "offset": 0, "data": "", "final": True}, ("data",), "!!!!", "data"),
        (wire.EventBatch, {"events": [samples.EVENT]}, ("events", 0, "occurred_at"), "yesterday", None),
    ],
)
def test_a_bad_value_is_named(
    message: type[Any], body: dict[str, Any], path: tuple[Any, ...], value: object, field: str | None
) -> None:
    bad = copy.deepcopy(body)
    target: Any = bad
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    with pytest.raises(ProtocolError) as caught:
        message.parse(bad)
    assert caught.value.field == (field or ".".join(str(step) for step in path))


def test_a_missing_required_field_is_named_and_an_absent_nullable_one_is_null() -> None:
    body = {key: value for key, value in samples.SYNC_REQUEST.items() if key != "boot_id"}
    with pytest.raises(ProtocolError, match="boot_id: found nothing"):
        wire.SyncRequest.parse(body)
    assert wire.Host.parse({"architecture": "x86_64"}).cpu_count is None


def test_an_agent_may_not_send_stray_fields_but_a_newer_platform_may() -> None:
    with pytest.raises(ProtocolError) as caught:
        wire.SyncRequest.parse({**samples.SYNC_REQUEST, "shell": "id"})
    assert caught.value.field == "shell"
    assert wire.SyncReply.parse({**samples.SYNC_REPLY, "motd": "hello"}).plan_version == 3


def test_an_error_never_shows_a_secret() -> None:
    secret = "hunter2"
    with pytest.raises(ProtocolError) as caught:
        wire.AttemptPlan.parse({**samples.ATTEMPT_PLAN, "environment": {"PASSWORD": [secret]}})
    assert secret not in str(caught.value)
    with pytest.raises(ProtocolError) as caught:
        wire.AttemptPlan.parse({**samples.ATTEMPT_PLAN, "environment": {"PASSWORD": secret + "\x00"}})
    assert secret not in str(caught.value)


@pytest.mark.parametrize("field", ["username", "password"])
@pytest.mark.parametrize(
    "value",
    ["", "hunter2\n", "hunter2\x7f", "hunter2\u00e4", "hunter2" * 400, 4711, ["hunter2"], {"hunter2": "hunter2"}],
)
def test_a_login_is_bounded_printable_and_never_shown(field: str, value: object) -> None:
    bad = {**samples.REGISTRY_LOGIN, field: value}
    with pytest.raises(ProtocolError) as caught:
        wire.AttemptSecrets.parse({"environment": {}, "registry_login": bad})
    assert caught.value.field == f"registry_login.{field}"
    assert not {"hunter2", "4711"} & {word for word in ("hunter2", "4711") if word in str(caught.value)}


def test_secrets_are_in_no_repr() -> None:
    body = {"environment": {"TOKEN": "correct-horse"}, "registry_login": samples.REGISTRY_LOGIN}
    secrets = wire.AttemptSecrets.parse(body)
    for shown in (repr(secrets), repr(secrets.registry_login)):
        assert not [word for word in ("hunter2", "robot", "correct-horse") if word in shown]
    with pytest.raises(ProtocolError):
        wire.RegistryLogin.parse({**samples.REGISTRY_LOGIN, "username": "ravi:x"})


def test_a_plan_item_is_typed_by_its_kind_and_its_key_must_be_the_bodys() -> None:
    item = wire.PlanItem.parse({"kind": "benchmark", "key": samples.UUID_A, "body": samples.BENCHMARK_PLAN})
    assert isinstance(item.typed_body(), wire.BenchmarkPlan)
    other = wire.PlanItem.parse({"kind": "attempt", "key": samples.UUID_B, "body": samples.ATTEMPT_PLAN})
    with pytest.raises(ProtocolError, match="key"):
        other.typed_body()


def test_one_bad_event_leaves_its_neighbours_readable() -> None:
    batch = wire.EventBatch.parse({"events": [{**samples.EVENT, "kind": "telepathy"}, samples.EVENT]})
    with pytest.raises(ProtocolError, match="kind"):
        batch.events[0].typed_body()
    assert isinstance(batch.events[1].typed_body(), wire.AttemptEnded)
    with pytest.raises(ProtocolError) as caught:
        wire.Event.parse({**samples.EVENT, "body": {**samples.ATTEMPT_ENDED, "reason": "bored"}}).typed_body()
    assert caught.value.field == "body.reason"


def test_lists_are_bounded() -> None:
    with pytest.raises(ProtocolError, match="at most 100 items"):
        wire.EventBatch.parse({"events": [samples.EVENT] * 101})
    chunk = wire.LogChunk.of(token="t", offset=0, content=b"x" * (wire.MAX_LOG_CHUNK_BYTES + 1), final=False)
    with pytest.raises(ProtocolError, match="data"):
        wire.LogChunk.parse(chunk.to_dict())
    content = bytes(range(256)) * 256
    assert wire.LogChunk.parse(wire.LogChunk.of(token="t", offset=0, content=content, final=True).to_dict()).content()


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b"\xff",
        b"",
        b"[" * 100_000,
        b'"' + b"x" * MAX_BODY_BYTES + b'"',
        b"1" * 10_000,
    ],
    ids=["nan", "infinity", "not-utf8", "empty", "deep", "long", "digits"],
)
def test_a_body_that_is_no_plain_json_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        json_read(body)


def test_a_number_that_overflows_is_refused() -> None:
    body = {**samples.SYNC_REPLY, "sync_after_s": json.loads("1e999")}
    with pytest.raises(ProtocolError, match="sync_after_s"):
        wire.SyncReply.parse(body)


def test_the_digest_ignores_order_and_free_space_but_nothing_else() -> None:
    second = {**samples.GPU, "uuid": samples.GPU_UUID[:-1] + "6"}
    inventory = {**samples.INVENTORY, "gpus": [samples.GPU, second]}

    def digest(**changes: Any) -> str:
        return wire.inventory_digest(wire.Inventory.parse({**inventory, **changes}))

    assert digest() == digest(gpus=[second, samples.GPU])
    assert digest() == digest(host={**samples.HOST, "disk_free_bytes": 1})
    assert digest() != digest(host={**samples.HOST, "ram_bytes": 1})
    assert digest() != digest(gpus=[samples.GPU, {**second, "health": "lost"}])
