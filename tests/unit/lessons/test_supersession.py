"""The last word counts."""

import pytest

from agent_memory.features.lessons.model.extracting import extract
from agent_memory.features.lessons.model.lessons import Lesson
from agent_memory.features.lessons.model.supersession import find_superseded
from tests.unit.lessons.talks import talk, user


def said(text: str, session: str) -> Lesson:
    [lesson] = extract(talk(user(text), session=session))
    return lesson


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Always set the page size to 20 in every list.",
         "From now on the page size is 50 in every list."),
        ("We always deploy with fabric, everywhere.",
         "Stop using fabric, from now on everything is deployed with ansible."),
        ("Never commit generated files in this repo.",
         "Please never commit generated files in this repo."),
    ],
)  # fmt: skip
def test_a_later_word_replaces_an_older_one(old: str, new: str) -> None:
    first, second = said(old, "one"), said(new, "two")
    assert find_superseded([first, second]) == {first.id: second.id}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Always set the page size to 20 in every list.",
         "From now on the time limit is 30 seconds for every job."),
        ("Never commit generated files in this repo.",
         "Never commit without a ticket number in this repo."),
    ],
)  # fmt: skip
def test_another_subject_replaces_nothing(old: str, new: str) -> None:
    assert find_superseded([said(old, "one"), said(new, "two")]) == {}
