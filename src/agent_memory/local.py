"""The former name of `daemon.standalone`: installed service units still start this module."""

import sys

from agent_memory.daemon.standalone import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
