"""`python -I -S launch.py memory ...`: the fastest way to run a command.

The hooks of agents that are installed already call this file by its path, so it must stay here.
It loads the launcher as the package `launcher`, without importing `agent_memory`, and does nothing
else: Python compiles a script at every start, and a module once.
"""

import sys

if __name__ == "__main__":
    package = type(sys)("launcher")
    package.__path__ = [(__file__.rpartition("/")[0] or ".") + "/launcher"]
    sys.modules["launcher"] = package
    from launcher import command_client

    command_client.run_and_exit()
