"""The guard: the only holder of the engine's socket on a provider's host.

A program of its own in an image of its own; the agent speaks to it as if it were Docker Engine. What is not on the list
in `calls` is refused, and what is on it is read apart field by field and written anew. Standard library only.
"""
