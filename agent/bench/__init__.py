"""Ways to measure a GPU. `agent.registry` picks one by the probe."""
