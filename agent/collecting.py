"""Collecting what an attempt keeps sealed on the platform: asked for until there is an answer, which comes once."""

import logging
from collections.abc import Callable

from agent.client import ClientError, Refused
from agent.pacing import Backoff
from agent.runtime.base import RuntimeRefused
from agent_protocol.messages import SECRETS_GONE, SECRETS_OTHER_BOOT, AttemptSecrets, SecretsRequest

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 15.0
# What cannot get better by asking again. An agent before us has had them, or an answer was lost on the way: then nobody
# knows who has read it, and the job begins anew under another token.
_FINAL = {SECRETS_GONE: "secrets_lost", SECRETS_OTHER_BOOT: "host_restart"}

Collect = Callable[[str, SecretsRequest], AttemptSecrets]

log = logging.getLogger("agent.secrets")


def secrets_collect(
    collect: Collect,
    attempt_id: str,
    request: Callable[[], SecretsRequest],
    given_up: Callable[[], bool],
    wait: Callable[[float], None],
) -> AttemptSecrets | None:
    """The attempt's secrets; null when given up. `request` is asked each time, as a token may change.

    Raises RuntimeRefused when they are not to be had any more.
    """
    backoff = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S)
    while not given_up():
        try:
            return collect(attempt_id, request())
        except ClientError as error:
            if isinstance(error, Refused) and error.code in _FINAL:
                raise RuntimeRefused(_FINAL[error.code]) from None
            pause = backoff.next()
            log.warning(
                "the secrets did not come",
                extra={"attempt": attempt_id, "why": str(error), "retry_in_s": round(pause, 2)},
            )
            wait(pause)
    return None
