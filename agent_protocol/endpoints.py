"""Every endpoint of protocol version 1: who asks what, and what is answered. The description for programs is made from it."""

from dataclasses import dataclass
from enum import Enum

from agent_protocol.fields import Message
from agent_protocol.messages import (
    AttemptSecrets,
    BenchCommit,
    BenchCommitted,
    BenchDownload,
    BenchOpen,
    BenchOpened,
    BenchStart,
    BenchStarted,
    BenchUploaded,
    CredentialReply,
    CredentialRequest,
    EnrolReply,
    EnrolRequest,
    EventBatch,
    EventsReply,
    LogChunk,
    LogReply,
    SecretsRequest,
    SyncReply,
    SyncRequest,
)

# What any of them may answer besides its own reply, always as a RefusalReply.
REFUSALS: dict[int, str] = {
    400: "Not the protocol: `fields` names the field, what was found and what is allowed.",
    401: "`unauthorized`, `unknown_credential`, `credential_replaced`, or `revoked` (the agent stops its jobs and ends).",
    403: "Understood, and not allowed.",
    404: "There is no such thing, or it is another machine's.",
    409: "It does not fit what is known; a log's `next_offset` says where to go on. Secrets: `secrets_gone`, `other_boot`.",
    413: "The body is above 1 MiB.",
    426: "The agent is too old.",
    429: "Come back after `retry_after_s` seconds.",
}


class Bytes(Enum):
    """A body of application/octet-stream."""

    BYTES = "bytes"


BYTES = Bytes.BYTES


@dataclass(frozen=True)
class Endpoint:
    """`request` and `reply`: null is no body, BYTES is no JSON. `authorized`: with `Authorization: Bearer <credential>`."""

    method: str
    path: str
    summary: str
    request: type[Message] | Bytes | None = None
    reply: type[Message] | Bytes | None = None
    authorized: bool = True
    statuses: tuple[int, ...] = (200,)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "post", "/agent/v1/enrol", "Become a machine, or come back as one.", EnrolRequest, EnrolReply, False, (200, 201)
    ),
    Endpoint("post", "/agent/v1/credential", "Announce the next credential.", CredentialRequest, CredentialReply),
    Endpoint("post", "/agent/v1/sync", "Say what is, hear what should be.", SyncRequest, SyncReply),
    Endpoint("post", "/agent/v1/events", "What happened and must arrive.", EventBatch, EventsReply),
    Endpoint(
        "post",
        "/agent/v1/attempts/{attempt_id}/secrets",
        "Collect what an attempt keeps sealed: answered once, to the boot it was placed on.",
        SecretsRequest,
        AttemptSecrets,
    ),
    Endpoint("post", "/agent/v1/attempts/{attempt_id}/logs", "A job's output at an offset.", LogChunk, LogReply),
    Endpoint(
        "get", "/agent/v1/bell", "An event stream that says when to sync; a sync's ticket opens it.", authorized=False
    ),
    Endpoint("post", "/agent/v1/bench/{run_id}/start", "Ask for the challenge's seed.", BenchStart, BenchStarted),
    Endpoint("post", "/agent/v1/bench/{run_id}/commit", "Commit to every product.", BenchCommit, BenchCommitted),
    Endpoint("post", "/agent/v1/bench/{run_id}/open", "Show the rows that were asked for.", BenchOpen, BenchOpened),
    Endpoint("post", "/agent/v1/bench/{run_id}/download", "Random bytes, to measure the line.", BenchDownload, BYTES),
    Endpoint("post", "/agent/v1/bench/{run_id}/upload", "Bytes, to measure the line.", BYTES, BenchUploaded),
)
