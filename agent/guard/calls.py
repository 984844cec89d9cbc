"""The allow-list: every call that the guard passes on, and nothing else.

Each is what `agent/runtime/docker.py` does. Names are looked up first and acted on by id, so that what was judged is what
is touched; what does not carry the guard's mark is answered as if it were not there.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.confinement import JOB_NAME
from agent.guard import answers
from agent.guard.containers import container_check, image_name_check
from agent.guard.context import Context, Relay, Reply, Unanswered
from agent.guard.engine import Answer
from agent.guard.errors import Absent, NameTaken, Refused
from agent.guard.fields import Exactly, Matching, Rule, Table
from agent.guard.http import Request
from agent.guard.listing import listed, room
from agent.guard.logins import login_check
from agent.guard.objects import network_check, volume_check
from agent.guard.strict import json_read, json_write

# Between these the calls below mean the same. The engine is not spoken to in a later language than the guard knows.
OLDEST, NEWEST = 41, 47
# Two clocks of one host differ by nothing; this is for the request's way here.
_AHEAD_S = 5.0
_SMALL_BODY = 16 * 1024
# A plan item is at most 1 MiB, and JSON may double it.
_JOB_BODY = 2 * 1024 * 1024
_NAME = rf"(?P<name>{JOB_NAME.pattern})"
_NAME_OR_ID = rf"(?P<name>{JOB_NAME.pattern}|[0-9a-f]{{64}})"
_NO = Exactly(["0", "false", "False"])
_YES = Exactly(["1", "true", "True"])
_INSTANT = Matching(re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?"), "seconds since 1970")
_TAG = Matching(re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}"), "a tag or a digest")
_REPOSITORY = Matching(re.compile(r"[a-z0-9][a-z0-9._:/-]{0,400}"), "registry/name")
_SIGNAL = Exactly(["SIGTERM", "SIGKILL"])
_JOB = Matching(JOB_NAME, "gpunex-job-<job>-<number>")
_FILTERS = Matching(re.compile(r".{0,2000}"), "a JSON object")


@dataclass(frozen=True)
class Call:
    method: str
    path: re.Pattern[str]
    run: Callable[[Context], Reply | Relay]
    query: Mapping[str, Rule] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    body_bytes: int = 0
    unversioned: bool = False
    login: bool = False


def call_find(request: Request) -> tuple[Call, str]:
    """The call that this request is, and the name in its path. Raises Refused."""
    for call in CALLS:
        match = call.path.fullmatch(request.path)
        if match is None or call.method != request.method:
            continue
        if request.version is None and not call.unversioned:
            raise Refused("path", "no version", f"/v1.{OLDEST} to /v1.{NEWEST}")
        if request.version is not None and not OLDEST <= request.version <= NEWEST:
            raise Refused("path", f"version 1.{request.version}", f"/v1.{OLDEST} to /v1.{NEWEST}")
        if request.login is not None and not call.login:
            raise Refused("header x-registry-auth", "a value", "none: a login is for pulling an image")
        return call, match.groupdict().get("name", "")
    raise Refused("call", f"{request.method} {request.path[:120]}", "the calls in agent/guard/calls.py")


def query_check(call: Call, query: dict[str, str]) -> dict[str, str]:
    checked: dict[str, str] = Table(call.query, call.required).check(query, "query")
    return checked


def _whole(answer: Answer) -> Reply:
    return Reply(answer.body, answer.status, answer.content_type)


# System


def _ping(context: Context) -> Reply:
    return _whole(context.ask("GET", "/_ping"))


def _version(context: Context) -> Reply:
    answer = context.ask("GET", "/version")
    return Reply(json_write(answers.version(answer.json(), NEWEST))) if answer.good else _whole(answer)


def _info(context: Context) -> Reply:
    answer = context.ask("GET", "/info")
    return Reply(json_write(answers.info(answer.json()))) if answer.good else _whole(answer)


def _disk_usage(context: Context) -> Reply:
    query = {"type": "volume"} if (context.version or 0) >= 42 else {}
    answer = context.ask("GET", "/system/df", query=query)
    return Reply(json_write(answers.disk_usage(answer.json()))) if answer.good else _whole(answer)


def _events(context: Context) -> Reply:
    if float(context.query["until"]) > time.time() + _AHEAD_S:
        raise Refused("query.until", context.query["until"], "a time that has come: events are remembered, not awaited")
    answer = context.ask("GET", "/events", query={each: context.query[each] for each in ("since", "until")})
    return Reply(answers.events(answer.body)) if answer.good else _whole(answer)


# Images


def _image_path(reference: str) -> str:
    """By its full name: a short one could be the beginning of some other image's id."""
    return f"/images/{reference.replace('@', '%40')}/json"


def _image_pull(context: Context) -> Relay:
    tag = context.query["tag"]
    mark = "@" if tag.startswith("sha256:") else ":"
    reference = context.policy.image(f"{context.query['fromImage']}{mark}{tag}", "query.fromImage")
    query = {"fromImage": reference.name, "tag": reference.digest or reference.tag or "latest"}
    login = None if context.login is None else login_check(context.login, reference.registry)
    return Relay("POST", f"{context.prefix}/images/create", query, login)


def _image_ask(context: Context) -> Relay:
    """Whether the registry would give this image to whoever has this login, or to anybody; and which digest a tag means."""
    reference = context.policy.image(context.name.replace("%40", "@"), "image")
    login = None if context.login is None else login_check(context.login, reference.registry)
    target = reference.pull_reference.replace("@", "%40")
    return Relay("GET", f"{context.prefix}/distribution/{target}/json", {}, login)


def _image_inspect(context: Context) -> Reply:
    reference = context.policy.image(context.name.replace("%40", "@"), "image")
    answer = context.ask("GET", _image_path(reference.pull_reference))
    return Reply(json_write(answers.image(answer.json()))) if answer.good else _whole(answer)


def _image_remove(context: Context) -> Reply:
    """One that no container uses, which the engine sees to, and that bears no tag: jobs' images bear none, and whoever tags
    an image wants it. Never the agent's own."""
    reference = context.policy.image(context.name.replace("%40", "@"), "image")
    if reference.digest in {each.digest for each in context.policy.images}:
        raise Refused("image", "the agent's own", "an image of jobs")
    path = _image_path(reference.pull_reference)
    described = context.ask("GET", path)
    if not described.good:
        return _whole(described)
    if described.json().get("RepoTags"):
        raise Refused("image", "one with a tag", "images that are here by their digest alone")
    removed = context.ask("DELETE", path.removesuffix("/json"), query={"force": "0", "noprune": "1"})
    return Reply(b"[]") if removed.good else _whole(removed)


# Containers


def container_id(context: Context) -> tuple[str, Answer]:
    """The id of a container that is ours, and its description. Raises Absent."""
    answer = context.ask("GET", f"/containers/{context.name}/json")
    if answer.good:
        found = answer.json()
        if answers.is_ours((found.get("Config") or {}).get("Labels"), str(found.get("Name", "")).lstrip("/")):
            return str(found["Id"]), answer
    if answer.good or answer.status == 404:
        raise Absent(f"No such container: {context.name}")
    raise Unanswered(answer)


def _container_inspect(context: Context) -> Reply:
    _, answer = container_id(context)
    return _whole(answer)


def _container_create(context: Context) -> Reply:
    body, name = json_read(context.body), context.query["name"]
    image = image_name_check(body, context.policy)
    described = context.ask("GET", _image_path(image))
    if not described.good:
        return _whole(described)
    passed = container_check(body, name=name, image=described.json(), policy=context.policy) | {"Image": image}
    _owned(context, "volumes", name)
    if passed["HostConfig"]["NetworkMode"] == name:
        _owned(context, "networks", name)
    with room(context, "containers", name):
        return _whole(context.ask("POST", "/containers/create", query={"name": name}, body=passed))


def _container_start(context: Context) -> Reply:
    found, _ = container_id(context)
    return _whole(context.ask("POST", f"/containers/{found}/start"))


def _container_kill(context: Context) -> Reply:
    found, _ = container_id(context)
    return _whole(context.ask("POST", f"/containers/{found}/kill", query=dict(context.query)))


def _container_logs(context: Context) -> Relay:
    found, _ = container_id(context)
    query = {"stdout": "1", "stderr": "1", "follow": context.query.get("follow", "0"), "tail": "all"}
    return Relay("GET", f"{context.prefix}/containers/{found}/logs", query)


def _container_remove(context: Context) -> Reply:
    found, _ = container_id(context)
    return _whole(context.ask("DELETE", f"/containers/{found}", query={"v": "1", "force": "1"}))


# Volumes and networks


def _owned(context: Context, kind: str, name: str) -> dict[str, Any]:
    """The description of a volume or network that is ours. Raises Absent."""
    answer = context.ask("GET", f"/{kind}/{name}")
    if answer.good:
        found: dict[str, Any] = answer.json()
        if found.get("Name") == name and answers.is_ours(found.get("Labels"), name):
            return found
    if answer.good or answer.status == 404:
        raise Absent(f"get {name}: no such volume" if kind == "volumes" else f"network {name} not found")
    raise Unanswered(answer)


def _volume_create(context: Context) -> Reply:
    body = volume_check(json_read(context.body))
    name = body["Name"]
    # Creating a volume that exists answers with the one that is there, whoever made it.
    before = context.ask("GET", f"/volumes/{name}")
    if before.good and not answers.is_ours(before.json().get("Labels"), name):
        raise NameTaken(f"guard: a volume {name} of somebody else exists")
    with room(context, "volumes", name):
        answer = context.ask("POST", "/volumes/create", body=body)
    if answer.good:
        context.workspaces.own(context.prefix, name)
    return _whole(answer)


def _volume_remove(context: Context) -> Reply:
    _owned(context, "volumes", context.name)
    context.workspaces.helper_remove(context.prefix, context.name)
    return _whole(context.ask("DELETE", f"/volumes/{context.name}", query={"force": "1"}))


def _network_create(context: Context) -> Reply:
    body = network_check(json_read(context.body), networks=context.policy.networks)
    with room(context, "networks", str(body["Name"])):
        return _whole(context.ask("POST", "/networks/create", body=body))


def _network_remove(context: Context) -> Reply:
    found = _owned(context, "networks", context.name)
    return _whole(context.ask("DELETE", f"/networks/{found['Id']}"))


def _call(method: str, path: str, run: Callable[[Context], Reply | Relay], **options: Any) -> Call:
    return Call(method, re.compile(path), run, **options)


_IMAGE = r"(?P<name>[a-z0-9][a-z0-9._:/-]*(?:%40sha256:[0-9a-f]{64})?(?::[A-Za-z0-9._-]+)?)"
_DIGEST = r"(?P<name>[a-z0-9][a-z0-9._:/-]*%40sha256:[0-9a-f]{64})"
_EXACT = r"(?P<name>[a-z0-9][a-z0-9._:/-]*(?:%40sha256:[0-9a-f]{64}|:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))"
_EITHER = Exactly(["0", "1"])
_TRUTH = Exactly([*_YES.values, *_NO.values])

CALLS: tuple[Call, ...] = (
    _call("GET", "/_ping", _ping, unversioned=True),
    _call("GET", "/version", _version, unversioned=True),
    _call("GET", "/info", _info),
    _call("GET", "/system/df", _disk_usage),
    _call("GET", "/events", _events, query={"since": _INSTANT, "until": _INSTANT}, required={"since", "until"}),
    _call(
        "POST",
        "/images/create",
        _image_pull,
        query={"fromImage": _REPOSITORY, "tag": _TAG},
        required={"fromImage", "tag"},
        login=True,
    ),
    _call("GET", f"/distribution/{_EXACT}/json", _image_ask, login=True),
    _call("GET", f"/images/{_IMAGE}/json", _image_inspect),
    _call("DELETE", f"/images/{_DIGEST}", _image_remove, query={"force": _NO, "noprune": _YES}),
    _call(
        "GET",
        "/containers/json",
        lambda context: listed(context, "containers"),
        query={"all": _TRUTH, "limit": Exactly(["-1"]), "size": _NO, "trunc_cmd": _NO, "filters": _FILTERS},
    ),
    _call(
        "POST",
        "/containers/create",
        _container_create,
        query={"name": _JOB},
        required={"name"},
        body_bytes=_JOB_BODY,
    ),
    _call("GET", f"/containers/{_NAME_OR_ID}/json", _container_inspect),
    _call(
        "GET",
        f"/containers/{_NAME_OR_ID}/logs",
        _container_logs,
        query={
            "stdout": _EITHER,
            "stderr": _EITHER,
            "follow": _EITHER,
            "timestamps": Exactly(["0"]),
            "tail": Exactly(["all"]),
        },
    ),
    _call("POST", f"/containers/{_NAME_OR_ID}/start", _container_start),
    _call("POST", f"/containers/{_NAME_OR_ID}/kill", _container_kill, query={"signal": _SIGNAL}, required={"signal"}),
    _call(
        "DELETE",
        f"/containers/{_NAME_OR_ID}",
        _container_remove,
        query={"v": _YES, "force": _YES, "link": _NO},
        required={"v"},
    ),
    _call("GET", "/volumes", lambda context: listed(context, "volumes"), query={"filters": _FILTERS}),
    _call("POST", "/volumes/create", _volume_create, body_bytes=_SMALL_BODY),
    _call("DELETE", f"/volumes/{_NAME}", _volume_remove, query={"force": _YES}),
    _call("GET", "/networks", lambda context: listed(context, "networks"), query={"filters": _FILTERS}),
    _call("POST", "/networks/create", _network_create, body_bytes=_SMALL_BODY),
    _call("DELETE", f"/networks/{_NAME}", _network_remove),
)
