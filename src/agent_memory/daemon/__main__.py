"""Run the daemon in the foreground: `python -m agent_memory.daemon`.

The launcher starts daemons this way, because loading all commands would take longer than the store.
"""

import argparse
import gc
import sys
from pathlib import Path

# Each of these two steps saves a tenth of the start time. The collector would search what is being
# loaded, and find nothing: it begins when the daemon is ready. And structlog loads rich if it can,
# for consoles, and greenlet, which no one here uses.
gc.disable()
sys.modules |= dict.fromkeys(("greenlet", "rich"))  # type: ignore[arg-type]
import structlog  # noqa: E402, F401

del sys.modules["greenlet"], sys.modules["rich"]

from agent_memory.daemon.daemon import DaemonOptions, run  # noqa: E402
from agent_memory.launcher import environment  # noqa: E402


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m agent_memory.daemon", description=__doc__)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--port", type=int)
    parser.add_argument("--http-port", type=int)
    parser.add_argument("--db-path")
    parser.add_argument("--log-level")
    parser.add_argument("--ready-fd", type=int)
    parser.add_argument("--auto", action="store_true")
    parser.add_argument("--replace", action="store_true")
    options = parser.parse_args(environment.enter(arguments))
    return run(
        DaemonOptions(
            config_file=options.config,
            flags={
                "grpc.port": options.port,
                "http.port": options.http_port,
                "storage.path": options.db_path,
                "log.level": options.log_level,
            },
            ready_fd=options.ready_fd,
            by_itself=options.auto,
            replace=options.replace,
        )
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
