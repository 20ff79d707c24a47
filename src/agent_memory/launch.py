"""`python -I -S launch.py memory ...`: the fastest way to run a command, for agents' hooks.

It only loads `launcher/relay.py`: a script is compiled at every start, a module once.
"""

import sys

if __name__ == "__main__":
    sys.path.insert(0, (__file__.rpartition("/")[0] or ".") + "/launcher")
    import relay

    del sys.path[0]
    relay.run_and_exit()
