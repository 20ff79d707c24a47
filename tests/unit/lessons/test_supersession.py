"""The last word counts."""

from dataclasses import replace

import pytest

from agent_memory.features.lessons.model.extracting import extract
from agent_memory.features.lessons.model.lessons import Lesson
from agent_memory.features.lessons.model.supersession import find_superseded
from tests.unit.lessons.talks import agent, talk, user


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
        ("Always use snake case for the columns.", "Use camel case for the columns from now on."),
        ("Never use gulp here, use esbuild.", "we can use gulp again"),
        ("Never touch the ledger module in this repo.", "touching the ledger module is fine again"),
        ("Don't use emojis in commit messages.", "Actually, do use emojis in commit messages."),
        ("Always keep the dumps for 30 days.", "Always keep the dumps for 90 days."),
        ("Always use mocha here.", "Stop using mocha here, go back to ava."),
        ("Always use trailing commas.", "don't use trailing commas"),
        ("We always deploy with fabric, everywhere.", "we switch from fabric to ansible for good"),
    ],
)  # fmt: skip
def test_a_later_word_replaces_an_older_one(old: str, new: str) -> None:
    first, second = said(old, "one"), said(new, "two")
    assert find_superseded([first, second]) == {first.id: second.id}


def test_an_amended_conclusion_replaces_what_the_talk_before_it_said() -> None:
    first = extract(
        talk(
            user("late_fee charges too much, what should it do?"),
            agent("Charge per day or per week?"),
            user("Per week, and a started week always counts as a whole one."),
            agent("Settled: late_fee charges 5 per week, a started week counts as a whole one."),
            session="one",
        )
    )
    second = extract(
        talk(
            user("We have to change late_fee, customers complain about the first days."),
            agent("A grace period before the weeks are counted?"),
            user("Three days free, always, then weeks as before."),
            agent(
                "Amended: late_fee has three free days, then charges 5 per week, a started week"
                " counts as a whole one."
            ),
            session="two",
        )
    )
    found = find_superseded([*first, *second])
    assert {each.id for each in first} <= set(found)
    assert not {each.id for each in second[-1:]} & set(found)


def test_lessons_of_another_project_are_left_alone() -> None:
    old = said("Always set the page size to 20 in every list.", "one")
    new = said("From now on the page size is 50 in every list.", "two")
    assert find_superseded([replace(old, project="other"), new]) == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Always set the page size to 20 in every list.",
         "From now on the time limit is 30 seconds for every job."),
        ("Never commit generated files in this repo.",
         "Never commit without a ticket number in this repo."),
        ("From now on never use gulp in this repo.",
         "From now on never use webpack in this repo."),
        ("Don't ever touch deploy/keys/ in this repo.",
         "From now on don't touch deploy/hosts/ in this repo."),
        ("Always use snake case for the columns.", "Use plural names for the tables from now on."),
        ("Always use pytest in this repo.", "Use hypothesis for the parser from now on."),
        ("Never use gulp in this repo.", "we can use mocha again"),
        ("Never use port 80 in this repo.", "Never use port 443 in this repo."),
        ("Always push to main through a review.", "pushing to main is fine again"),
        ("Always sort the imports by module.", "From now on always sort the fixtures by module."),
    ],
)  # fmt: skip
def test_another_subject_replaces_nothing(old: str, new: str) -> None:
    assert find_superseded([said(old, "one"), said(new, "two")]) == {}
