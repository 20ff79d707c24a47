"""The worker process. It runs the functions of each lane one at a time, at the lane's priority."""

import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence

from agent_memory.platform.priority import NICENESS, ThreadPriority, set_priority
from agent_memory.platform.worker import messages


def main(lanes: Sequence[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    served = [_parse_lane(lane) for lane in lanes]
    if sys.platform != "linux" and all(lane is not ThreadPriority.NORMAL for lane, _ in served):
        os.nice(NICENESS)  # threads have no priority of their own there
    _die_with_parent(served[0][1])  # before it lowers its own priority
    for lane in served[1:]:
        threading.Thread(target=_serve, args=lane, daemon=True).start()
    _serve(*served[0])


def _parse_lane(lane: str) -> tuple[ThreadPriority, socket.socket]:
    name, _, descriptor = lane.partition(":")
    return ThreadPriority(name), socket.socket(fileno=int(descriptor))


def _serve(priority: ThreadPriority, channel: socket.socket) -> None:
    set_priority(priority)
    while True:
        try:
            function, arguments = messages.receive(channel)
        except EOFError:
            return
        began = time.process_time()  # of all its threads: the embedder has several
        try:
            answer = True, function(*arguments)
        except Exception as exc:
            answer = False, exc
        except BaseException:
            os._exit(1)  # an exit of the function is a crash, on every thread
        seconds = time.process_time() - began
        try:
            messages.send(channel, (*answer, seconds))
        except (TypeError, AttributeError, ValueError, pickle.PicklingError) as exc:
            unsent = TypeError(f"the result cannot be sent back: {exc}")
            messages.send(channel, (False, unsent, seconds))


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
    main(sys.argv[1:])
