"""How a machine's state follows from its silence. Not a Moves table: it moves for whole fleets at once, in SQL.

    online → suspect (45 s silent) → offline (90 s silent) → online (the next heartbeat)

``services.heartbeats`` and ``services.sweep`` are the only writers; each change writes one Flip.
"""

from __future__ import annotations

SUSPECT_SECONDS = 45
"""Two missed heartbeats of 15 s ± 20 %: no new jobs, nothing else."""
OFFLINE_SECONDS = 90
"""Five missed heartbeats; shorter silences are the internet's."""
PULSE_GAP_SECONDS = 30
"""Sweeps come every 5 s; when six were missed *we* were not looking: a platform outage, and nobody's silence."""
