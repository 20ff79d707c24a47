"""The worker process. It runs functions one at a time, at low priority."""

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
            messages.send(channel, (False, TypeError(f"the result cannot be sent back: {exc}")))


def _die_with_parent(channel: socket.socket) -> None:
    """Exit when the channel closes, even while a function runs.

    PR_SET_PDEATHSIG does not work here: it reports the end of the thread that started the process,
    and commands use short-lived threads.
    """

    def watch() -> None:
        hangup = select.poll()
        hangup.register(channel, 0)  # POLLHUP is always reported
        hangup.poll()
        os._exit(0)

    threading.Thread(target=watch, name="parent", daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]))
