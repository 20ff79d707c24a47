"""The table of bench.growth, and events that are spread over days."""

from itertools import pairwise

from bench import conversation, growth


def test_each_size_is_compared_with_the_smallest() -> None:
    found = [{"a": 2.0, "none": 0.0}, {"a": 2.4, "none": 3.0}, {"a": 5.0}]
    rows = [[cell.split() for cell in row] for row in growth.build_rows(found)]
    assert rows == [
        [["a"], ["2", "flat"], ["2.4", "flat"], ["5", "x", "2.5"]],
        [["none"], ["0"], ["3"], []],
    ]


def test_a_figure_that_only_a_larger_size_has_gets_a_row() -> None:
    assert growth.build_rows([{}, {"late": 1.0}]) == [["late", "", "1"]]


def test_events_are_spread_over_days_in_order() -> None:
    events = list(conversation.events(seed=1, count=25, first_ms=1_000, events_per_day=10))
    times = [event.timestamp_ms for event in events]
    assert [at // conversation.DAY_MS for at in times] == [0] * 10 + [1] * 10 + [2] * 5
    assert all(one <= other for one, other in pairwise(times))
    assert len({event.event_id for event in events}) == 25
