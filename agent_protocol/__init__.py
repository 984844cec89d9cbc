"""What the platform and a host say to each other: messages, host checks, failure reasons. Standard library only.

Both sides import this package, so the two cannot drift apart; `docs/agent-protocol.md` tells the story around it.
"""
