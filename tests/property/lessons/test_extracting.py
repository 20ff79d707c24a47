"""Properties of lessons: bounded, the same again, and never an error, whatever a session has."""

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.lessons.model.extracting import MAX_LESSONS, extract
from agent_memory.features.lessons.model.lessons import MAX_NAMES, MAX_SITUATION, MAX_TEXT
from agent_memory.features.lessons.model.supersession import find_superseded
from agent_memory.features.lessons.model.talk import read_talk
from tests.unit.lessons.talks import Part, agent, ran, talk, user, wrote

SAID = """
never always use tabs not spaces. from now on; the port is 5433, we tried `git push` and gave
it up: slower? please don't! src/a.py is generated Recap: exactly then no because ``` > <b> { }
isn't done yet "quoted text" 'x \u2019 \u0130 \u2014 Settled. yes go with that which or
"""
WORDS = st.sampled_from([*SAID.split(), "\n", "  ", "\n\n"])
TEXTS = st.lists(WORDS, max_size=40).map(" ".join)
PARTS = st.one_of(
    TEXTS.map(user),
    TEXTS.map(agent),
    st.builds(lambda c, o, f: ran(c, o, failed=f), TEXTS, TEXTS, st.booleans()),
    st.just(wrote("src/a.py")),
)


@given(st.lists(PARTS, max_size=12))
def test_lessons_are_bounded_and_the_same_again(parts: list[Part]) -> None:
    events = talk(*parts)
    lessons = extract(events)
    assert lessons == extract(events)
    assert len(lessons) <= MAX_LESSONS
    assert len({lesson.id for lesson in lessons}) == len(lessons)
    told = {event.event_id for event in events}
    for lesson in lessons:
        assert 0 < len(lesson.text) <= MAX_TEXT
        assert len(lesson.situation) <= MAX_SITUATION
        assert set(lesson.events) <= told
        for names in (lesson.paths, lesson.commands, lesson.errors, lesson.avoids):
            assert len(names) <= MAX_NAMES
    ids = [lesson.id for lesson in lessons]
    assert all(ids.index(old) < ids.index(new) for old, new in find_superseded(lessons).items())


@given(TEXTS)
def test_a_text_of_any_size_is_read_in_part(text: str) -> None:
    said = read_talk(talk(user(text * 400), agent(text * 2_000)))
    assert all(len(turn.text) < 40_000 for turn in said.turns)
