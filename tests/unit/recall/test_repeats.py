"""Which sentences say the same."""

import pytest

from agent_memory.features.recall.model import repeats
from agent_memory.features.recall.model.repeats import RetiredText
from agent_memory.features.toc.model.last_words import stems

RULE = "From now on always use black with a line length of 100 to format the code"


@pytest.mark.parametrize(
    ("said", "known", "expected"),
    [
        (RULE, RULE, True),
        ("Always use black with a line length of 100", RULE, True),
        (f"{RULE} of the shop", "Use black with a line length of 100 to format code", True),
        ("Always use black with a line length of 88", RULE, False),
        ("Use black", RULE, False),
        (f"{RULE}, and run mypy, the linter, the unit tests and the docs build", RULE, True),
        (
            "Run the linter, mypy, the unit tests, the contracts and the docs build before a push",
            "Run the linter before each push",
            False,
        ),
        ("Rename the parser of dates", RULE, False),
    ],
)
def test_what_a_sentence_adds_to_another(said: str, known: str, expected: bool) -> None:
    assert repeats.is_said(stems(said), stems(known)) is expected


def test_the_words_of_a_line_are_without_its_head_and_its_id() -> None:
    line = '- rule, the user, 2026-02-25: "Use tabs: always (in Makefiles)" (1f2e3d4c)'
    assert repeats.get_said(line) == '"Use tabs: always (in Makefiles)"'


class TestRetired:
    OLD = "Format the code of the shop with black"
    NEW = "Format the code of the shop with ruff"

    def is_retired(self, said: str, instead: str = "") -> bool:
        return repeats.is_retired(said, [RetiredText(self.OLD, instead)])

    def test_what_was_rejected(self) -> None:
        assert self.is_retired(f"decided: {self.OLD}")
        assert not self.is_retired("Deploy the shop on Fridays")

    def test_what_was_replaced_but_not_what_replaces_it(self) -> None:
        assert self.is_retired(f"From now on: {self.OLD}", self.NEW)
        assert not self.is_retired(f"From now on: {self.NEW}", self.NEW)

    def test_not_the_opposite_of_what_was_rejected(self) -> None:
        rejected = [RetiredText("Never use pandas for the daily reports, it is slow")]
        assert not repeats.is_retired("Use pandas for daily reports, slow as it is", rejected)
        assert repeats.is_retired("Do not use pandas for the daily reports", rejected)

    def test_a_part_of_what_was_rejected(self) -> None:
        rejected = [RetiredText("Format the python code with black in line length 100, never yapf")]
        assert repeats.is_retired("Format python code with black", rejected)
