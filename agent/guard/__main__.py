"""`python -m agent.guard`."""

import sys

from agent.guard.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
