"""Errors that end the agent, with the exit code and the sentence that a person reads."""

from enum import IntEnum


class ExitCode(IntEnum):
    """0 is a clean stop. 3 and 4: starting again changes nothing until a person acts. 70: a bug; start again."""

    CLEAN = 0
    CHECK_FAILED = 1
    USAGE = 2
    REVOKED = 3
    ENROLMENT_REFUSED = 4
    FAULT = 70


class AgentError(Exception):
    """Something a person must mend; `str(error)` says what was found and what to do."""

    exit_code = ExitCode.USAGE


class EnrolmentRefused(AgentError):
    exit_code = ExitCode.ENROLMENT_REFUSED
