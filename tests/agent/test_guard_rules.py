"""The guard's rules without an engine: whatever becomes of a good request, nothing dangerous is passed on."""

import json
import re
import socket
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.confinement import bridge_name, image_steering
from agent.guard.calls import CALLS, Context, call_find, query_check
from agent.guard.engine import Answer, Engine
from agent.guard.errors import GuardError, Refused
from agent.guard.http import Request, request_read
from agent.guard.policy import Policy
from agent.guard.strict import json_read, query_read
from agent.guard.workspace import Workspaces
from agent_protocol.images import image_parse
from tests.agent.guard_requests import API, IMAGE_ENVIRONMENT, create_body, order_of
from tests.agent.host import GPU_A, ROOT, attempt_body

IMAGE = "docker.io/library/busybox@sha256:" + "a" * 64
ORDER = order_of(attempt_body("true", gpu_uuids=[GPU_A]))
GOOD = create_body(ORDER, IMAGE)
POLICY = Policy(gpus=frozenset({GPU_A}), networks=True, memory_bytes=2**34, cpus=4)


class RecordingEngine(Engine):
    """Has one image and whatever volume or network it is asked for; remembers what it was told to create."""

    def __init__(self) -> None:
        super().__init__("/nowhere")
        self.created: list[dict[str, Any]] = []

    def call(self, method: str, path: str, *, body: Any = None, **_options: Any) -> Answer:
        answer: Any = {"Id": "0" * 64}
        if path.endswith(("/containers/json", "/networks", "/volumes")) and method == "GET":
            answer = {"Volumes": []} if path.endswith("/volumes") else []
        elif "/images/" in path:
            volumes = {"/declared": {}}
            answer["Config"] = {"Env": IMAGE_ENVIRONMENT, "Volumes": volumes, "Labels": {"traefik.enable": "true"}}
        elif method == "GET":
            answer |= {"Name": path.rpartition("/")[2], "Labels": {"gpunex.guard": "1"}}
        elif path.endswith("/containers/create"):
            self.created.append(body)
        return Answer(200, "application/json", json.dumps(answer).encode())


def create(body: dict[str, Any]) -> dict[str, Any] | None:
    """What reaches the engine; null when the guard refused."""
    engine = RecordingEngine()
    request = Request("POST", 41, "/containers/create", {"name": ORDER.name}, 0, b"")
    call, name = call_find(request)
    context = Context(
        engine,
        POLICY,
        Workspaces(engine),
        API,
        41,
        query_check(call, request.query),
        name,
        json.dumps(body).encode("utf-8", "surrogatepass"),
    )
    try:
        call.run(context)
    except GuardError:
        assert engine.created == []
        return None
    (passed,) = engine.created
    return passed


HOST_CONFIG = frozenset(
    [
        "Memory",
        "MemorySwap",
        "ShmSize",
        "NanoCpus",
        "PidsLimit",
        "IpcMode",
        "CgroupnsMode",
        "ReadonlyRootfs",
        "Privileged",
        "PublishAllPorts",
        "AutoRemove",
        "NetworkMode",
        "Dns",
        "RestartPolicy",
        "CapDrop",
        "SecurityOpt",
        "Binds",
        "Ulimits",
        "LogConfig",
        "Tmpfs",
        "Init",
        "DeviceRequests",
    ]
)
TOP = frozenset(
    [
        "User",
        "Tty",
        "OpenStdin",
        "StdinOnce",
        "AttachStdin",
        "AttachStdout",
        "AttachStderr",
        "NetworkDisabled",
        "Env",
        "Cmd",
        "Image",
        "WorkingDir",
        "Labels",
        "Healthcheck",
        "HostConfig",
    ]
)


def is_safe(body: dict[str, Any]) -> bool:
    """Said a second time, in other words than the guard's."""
    host = body["HostConfig"]
    environment = dict(entry.partition("=")[::2] for entry in body["Env"])
    gpus = [gpu for each in host.get("DeviceRequests") or () for gpu in each["DeviceIDs"]]
    return (
        set(body) <= TOP
        and set(host) <= HOST_CONFIG
        and body["User"] == "65534:65534"
        and body["Image"] == IMAGE
        and body["Healthcheck"]["Test"] == ["NONE"]
        and body["Labels"]["gpunex.guard"] == "1"
        and body["Labels"]["traefik.enable"] == ""
        and len(body["Labels"]) == 6
        and host["Binds"] == [f"{ORDER.name}:/workspace:rw,nocopy"]
        and host["CapDrop"] == ["ALL"]
        and len(host["SecurityOpt"]) == 1
        and "unconfined" not in json.dumps(host)
        and not host.get("Privileged")
        and not host.get("PublishAllPorts")
        and host["ReadonlyRootfs"] is True
        and host["NetworkMode"] in ("none", ORDER.name)
        and host.get("Dns", []) == (["1.1.1.1", "1.0.0.1"] if host["NetworkMode"] == ORDER.name else [])
        and host["IpcMode"] == "private"
        and host.get("RestartPolicy", {"Name": "no"})["Name"] == "no"
        and 0 < host["Memory"] == host["MemorySwap"] <= 2**34
        and 0 < host["NanoCpus"] <= 4_000_000_000
        and 0 < host["PidsLimit"] <= 65_536
        and host["LogConfig"]["Type"] == "local"
        and int(host["LogConfig"]["Config"]["max-size"]) < 2**28
        and set(host["Tmpfs"]) == {"/tmp", "/declared"}
        and all("size=" in options and "nosuid" in options for options in host["Tmpfs"].values())
        and gpus in ([], [GPU_A])
        and environment["NVIDIA_VISIBLE_DEVICES"] == (",".join(gpus) or "void")
        and environment["LD_PRELOAD"] == ""
        and len(environment) == len(body["Env"])
        and not any(
            value for name, value in environment.items() if name.startswith(("LD_", "NVIDIA_REQ", "NVIDIA_MIG"))
        )
    )


DANGEROUS_NAMES = [
    "Privileged",
    "CapAdd",
    "Devices",
    "DeviceCgroupRules",
    "Mounts",
    "VolumesFrom",
    "PidMode",
    "UTSMode",
    "UsernsMode",
    "CgroupnsMode",
    "CgroupParent",
    "MaskedPaths",
    "ReadonlyPaths",
    "Annotations",
    "PortBindings",
    "Runtime",
    "Sysctls",
    "OomScoreAdj",
    "Links",
    "ExtraHosts",
    "Dns",
    "GroupAdd",
    "StorageOpt",
    "Volumes",
    "Entrypoint",
    "NetworkingConfig",
    "User",
    "Env",
    "HostConfig",
    "Image",
    "size",
    "device",
    "LD_PRELOAD",
    "/proc",
    "all",
]
DANGEROUS_VALUES: list[Any] = [
    True,
    "host",
    "0",
    "container:stranger",
    ["ALL"],
    ["/:/host"],
    ["seccomp=unconfined"],
    [{"Type": "bind", "Source": "/", "Target": "/host"}],
    [{"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu"]]}],
    ["all"],
    {"Name": "always"},
    -1,
    0,
    10**18,
    [],
    {},
    None,
    "",
]
NAMES = st.sampled_from(DANGEROUS_NAMES).flatmap(
    lambda name: st.sampled_from([name, name.lower(), name.upper(), name.replace("s", "\u017f")])
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=12)
JSON = st.recursive(
    SCALARS | st.sampled_from(DANGEROUS_VALUES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for name, each in inner for place in places(each, (*at, name)))]


PLACES = [place for place in places(GOOD) if place]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(GOOD))
    for _ in range(draw(st.integers(1, 3))):
        *parents, last = draw(st.sampled_from(PLACES))
        inner: Any = body
        try:
            for name in parents:
                inner = inner[name]
            if draw(st.booleans()):
                inner[last] = draw(JSON)
            elif isinstance(inner, dict) and draw(st.booleans()):
                inner[draw(NAMES)] = draw(JSON)
            elif isinstance(inner, list) and draw(st.booleans()):
                inner.append(draw(JSON))
            else:
                del inner[last]
        except (KeyError, IndexError, TypeError):
            continue  # An earlier change took that place away.
    return body


def test_the_good_request_is_passed_on_and_safe() -> None:
    passed = create(GOOD)
    assert passed is not None
    assert is_safe(passed)
    assert passed["Labels"] == GOOD["Labels"] | {"gpunex.guard": "1", "traefik.enable": ""}


@settings(max_examples=400, deadline=None)
@given(mutated())
def test_no_change_of_a_good_request_lets_anything_dangerous_through(body: dict[str, Any]) -> None:
    passed = create(body)
    assert passed is None or is_safe(passed)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=60).map(lambda text: f"GET /v1.41/{text} HTTP/1.1".encode()))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    """What is read has a plain path; everything else is Refused, never another error."""
    left, right = socket.socketpair()
    with left, right:
        left.sendall(content + b"\r\n\r\n")
        left.shutdown(socket.SHUT_WR)
        try:
            request = request_read(right, time.monotonic() + 60)
        except Refused:
            return
        assert request is not None
        assert ".." not in request.path.split("/")
        assert "//" not in request.path
        assert request.path.isascii()


def test_a_peer_that_dawdles_is_left() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"GET / HT")
        with pytest.raises(TimeoutError):
            request_read(right, time.monotonic() + 0.01)


def test_a_single_image_opens_no_registry() -> None:
    digest = "sha256:" + "d" * 64
    policy = Policy(
        images=frozenset({image_parse(f"own.example/agent@{digest}", allowed_registries=frozenset({"own.example"}))})
    )
    assert policy.image(f"own.example/agent@{digest}", "Image").digest == digest
    assert policy.image("busybox:1", "Image").registry == "docker.io"
    for other in ("own.example/agent:1", f"own.example/other@{digest}", f"own.example/agent@sha256:{'e' * 64}"):
        with pytest.raises(Refused, match=r"allowed: docker\.io"):
            policy.image(other, "Image")


@pytest.mark.parametrize(
    "value",
    [
        "",
        ".",
        "lib",
        "/usr/lib:",
        ":/usr/lib",
        "/tmp",
        "/workspace/lib",
        "/usr/../tmp",
        "/usr/lib:/proc/self/cwd",
        "/usr/$ORIGIN",
    ],
)
def test_a_library_path_that_a_container_could_fill_is_switched_off(value: str) -> None:
    assert image_steering([f"LD_LIBRARY_PATH={value}"]) == ["LD_LIBRARY_PATH"]


def test_an_images_ordinary_library_path_stays() -> None:
    assert image_steering(["LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64", "PATH=/bin"]) == []
    assert image_steering(["LD_AUDIT=x", "NVIDIA_REQUIRE_CUDA=x", "NVARCH=x"]) == ["LD_AUDIT", "NVIDIA_REQUIRE_CUDA"]


def test_the_documented_calls_are_the_calls() -> None:
    text = (ROOT / "docs" / "guard.md").read_text()
    documented = re.findall(r"^\| `((?:GET|POST|DELETE) /[^`]+)`", text, re.M)
    called = [f"{call.method} {re.sub(r'[(][?]P<name>.*[)]+', '…', call.path.pattern)}" for call in CALLS]
    assert sorted(documented) == sorted(called)


def test_a_bridges_name_fits_the_kernel_and_is_each_jobs_own() -> None:
    names = {bridge_name(f"gpunex-job-{number}") for number in range(1000)}
    assert len(names) == 1000
    assert all(name.startswith("gpx") and len(name) == 15 for name in names)


@pytest.mark.parametrize("text", ["a=1&a=2", "a=1&A=2", "a", "=1", "a=%zz", "a=%ff", "a=1;b=2", "a=1&&b=2", "a=<"])
def test_queries_that_can_be_read_in_two_ways_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        query_read(text)


def test_fields_that_go_would_take_for_one_are_refused() -> None:
    for doubled in ('"a":1,"a":2', '"a":1,"A":2', '"k":1,"\u212a":2', '"s":1,"\u017f":2'):
        with pytest.raises(Refused, match="same field twice"):
            json_read(f"{{{doubled}}}".encode())
