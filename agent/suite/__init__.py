"""The benchmark suite. It runs alone in an image of its own (Dockerfile beside it): NumPy, torch and the standard library, of
ours only `agent_protocol.challenge`; nothing of the agent. It speaks JSON lines on its standard output."""

SUITE_VERSION = 1
