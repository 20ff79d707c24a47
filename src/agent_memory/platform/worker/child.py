"""The worker process: runs one function after another, at low priority, until told to end."""

import os
import pickle
import select
import signal
import socket
import sys
import threading

from agent_memory.platform.worker import messages

NICENESS = 10


def main(descriptor: int) -> None:
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(fileno=descriptor)
    _die_with_parent(channel)
    while True:
        try:
            function, arguments = messages.receive(channel)
        except EOFError:
            return
        try:
            answer = True, function(*arguments)
        except Exception as exc:
            answer = False, exc
        try:
            messages.send(channel, answer)
        except (TypeError, AttributeError, ValueError, pickle.PicklingError) as exc:
            messages.send(channel, (False, TypeError(f"cannot be sent back: {exc}")))


def _die_with_parent(channel: socket.socket) -> None:
    """The end of the channel ends an idle worker; this ends a busy one.

    Not PR_SET_PDEATHSIG: that tells of the end of the thread which started us, and commands have
    threads of their own.
    """

    def watch() -> None:
        hangup = select.poll()
        hangup.register(channel, 0)  # which is always reported
        hangup.poll()
        os._exit(0)

    threading.Thread(target=watch, name="parent", daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]))
