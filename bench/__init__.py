"""``bin/bench``: how fast the hot paths are, as ratios to a baseline measured in the same run."""
