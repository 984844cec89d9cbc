"""bin/start: the whole marketplace on one machine, started, watched and stopped as one."""
