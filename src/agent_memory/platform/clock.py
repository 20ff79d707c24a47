"""The machine's clock."""

import time

from agent_memory.kernel.ids import Millis


class SystemClock:
    def now(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000)
