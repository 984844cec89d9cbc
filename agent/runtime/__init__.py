"""Ways to run a job. `agent.registry` picks one by name, so that an agent loads only what it uses."""
