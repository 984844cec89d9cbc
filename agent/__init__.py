"""The host agent: enrols a machine, says what it has, runs what the platform wants, reports how it ended.

Ships alone: imports `agent_protocol`, the standard library, httpx and (by chosen runtime and probe) docker and pynvml.
`docs/agent-protocol.md` describes the behaviour; `agent.service` puts the parts together.
"""
