"""Run the daemon in the foreground: `python -m agent_memory.daemon`."""

import sys

from agent_memory.daemon.daemon import DaemonOptions, run

if __name__ == "__main__":
    sys.exit(run(DaemonOptions(flags={})))
