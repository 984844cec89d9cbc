"""Ways to look at the GPUs. `agent.registry` picks one by name."""
