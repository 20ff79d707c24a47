"""How the states of a daemon are compared."""

from bench import states
from bench.states import BACKLOG, IDLE, STREAM

MEASURED = {IDLE: [0.010] * 9 + [0.020], STREAM: [0.012] * 9 + [0.030], BACKLOG: [0.016] * 10}


def test_median_and_p99_are_compared_with_an_idle_store() -> None:
    rows, _ = states.compare({"Stop": MEASURED}, judged=["Stop"])
    assert rows == [
        ("Stop, idle", "10", "10.0", "20.0", "", "", ""),
        ("Stop, stream", "10", "12.0", "30.0", "1.20", "1.50", "<= 1.5 ok"),
        ("Stop, backlog", "10", "16.0", "16.0", "1.60", "0.80", "<= 1.5 SHORT"),
    ]


def test_a_rule_stands_between_things_and_only_some_are_judged() -> None:
    rows, groups = states.compare({"bare": MEASURED, "Stop": MEASURED}, judged=["Stop"])
    assert [row[-1] if row else None for row in rows] == [
        "", "", "", None, "", "<= 1.5 ok", "<= 1.5 SHORT",
    ]  # fmt: skip
    assert [group.goal for group in groups] == [None, 30.0]


def test_bars_show_p99_in_milliseconds() -> None:
    _, (group,) = states.compare({"Stop": MEASURED})
    assert group.values == {IDLE: 20.0, STREAM: 30.0, BACKLOG: 16.0}
