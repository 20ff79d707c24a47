"""Sessions: what is known of a conversation, its episode and its chains."""

from dataclasses import replace

import pytest

from agent_memory.features.knowledge.model import procedures, sessions, users
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.procedures import Chain, Step
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.log.model.events import Event
from agent_memory.kernel.ids import Millis
from tests.conversation_samples import START, STEP, THUMBNAILS, build_session

OWNER = "local:ann"
NOW = Millis(START + 10**9)


def known(events: list[Event]) -> Session:
    found: Session | None = None
    for event in events:
        assert sessions.follows(found, event)
        found = sessions.add_event(found, event, OWNER)
    assert found is not None
    return found


def episode_of(session: Session, before: Episode | None = None, now: Millis = NOW) -> Episode:
    found = sessions.build_episode(session, before, now)
    assert found is not None
    return found


def episode(*lines: tuple[str, str], agent: str = "claude-code") -> Episode:
    return episode_of(known(build_session("s", lines, agent=agent)))


def chains(*lines: tuple[str, str]) -> dict[tuple[str, ...], tuple[int, int]]:
    found = known(build_session("s", lines)).chains.values()
    return {tally.steps: (tally.used, tally.succeeded) for tally in found}


class TestEpisodes:
    def test_a_whole_session(self) -> None:
        found = episode_of(known(build_session("s", THUMBNAILS)))
        assert found.summary == "The thumbnail of a rotated picture lies on its side."
        assert (found.success, found.error_code, found.trigger_type) == (True, None, "chat")
        assert (found.agent_id, found.user_id) == ("claude-code", users.derive_id(OWNER))
        assert (found.started_ms, found.duration_ms) == (START, STEP * (len(THUMBNAILS) - 1))

    def test_a_prompt_that_nobody_answers(self) -> None:
        found = episode(("user", "Is anybody there?"))
        assert (found.success, found.error_code) == (False, "no_answer")

    def test_one_that_ends_with_a_tool_that_fails(self) -> None:
        found = episode(
            ("user", "Run the tests"),
            ("Bash", "Bash: pytest\nExit code 2\nno tests ran"),
            ("assistant", "They fail."),
        )
        assert (found.success, found.error_code) == (False, "tool_error")

    def test_a_failure_that_was_mended_is_none(self) -> None:
        found = episode(
            ("user", "Run the tests"),
            ("Bash", "Bash: pytest\nExit code 1\n1 failed"),
            ("Bash", "Bash: pytest\n1 passed"),
            ("assistant", "They pass."),
        )
        assert found.success

    def test_one_of_a_subagent(self) -> None:
        events = build_session("main/helper", [("subagent", ""), ("assistant", "Found it.")])
        assert episode_of(known(events)).trigger_type == "subagent"

    def test_who_talks_with_no_agent_of_this_machine_is_not_its_owner(self) -> None:
        assert episode(("user", "Hello"), agent="").user_id is None

    def test_who_an_event_names_is_the_user(self) -> None:
        events = build_session("s", [("user", "Hello")], user_id="telegram:42", speaker="Bo")
        found = known(events)
        assert (found.user, found.speaker) == ("telegram:42", "Bo")
        assert users.create_user(found.user, NOW).telegram_id == "42"

    def test_what_someone_has_set_stays_when_the_session_goes_on(self) -> None:
        before = replace(
            episode(("user", "Fix it"), ("assistant", "Done")),
            summary="A short one",
            fixed=frozenset({"summary"}),
        )
        longer = known(
            build_session("s", [("user", "Fix it"), ("assistant", "Done"), ("user", "More")])
        )
        after = episode_of(longer, before, Millis(NOW + 1))
        assert (after.summary, after.success, after.created_ms) == ("A short one", False, NOW)

    @pytest.mark.parametrize(
        ("prompt", "summary"),
        [
            ("\n\n  Fix the build \nplease", "Fix the build"),
            ("Hi. Can you fix the build of the docs?", "Hi. Can you fix the build of the docs?"),
            ("Why does it hang? It did not before.", "Why does it hang?"),
            ("x" * 300, "x" * 197 + "..."),
            ("", ""),
        ],
    )
    def test_the_first_prompt_in_short_is_the_summary(self, prompt: str, summary: str) -> None:
        assert episode(("user", prompt)).summary == summary


class TestChains:
    def test_what_leads_up_to_a_command_is_one(self) -> None:
        assert chains(*THUMBNAILS) == {
            ("Grep", "Read", "Edit", "Bash pytest"): (1, 0),
            ("Read", "Edit", "Bash pytest"): (1, 1),
        }

    def test_so_is_what_a_turn_ends_with(self) -> None:
        turn = (("user", "Where is order 7?"), ("find_order", "{}"), ("track", "{}"), ("stop", ""))
        assert chains(*turn, *turn) == {("find_order", "track"): (2, 2)}

    def test_one_that_is_not_ended_is_not_counted(self) -> None:
        assert chains(("user", "Look"), ("Read", "Read: a"), ("Edit", "Edit: a")) == {}

    def test_the_same_step_again_is_the_same_and_its_last_outcome_counts(self) -> None:
        lines = (
            ("Read", "Read: a"),
            ("Read", "Read: b"),
            ("fetch", "fetch\nError: no"),
            ("stop", ""),
        )
        assert chains(*lines) == {("Read", "fetch"): (1, 0)}

    def test_what_goes_on_without_end_does_not_pile_up(self) -> None:
        steps: tuple[Step, ...] = ()
        for number in range(1_000):
            steps = procedures.append_step(steps, Step(tool=f"tool{number % 2}"))
        assert len(steps) <= procedures.MAX_STEPS + 1
        assert procedures.name_steps(steps) == ()

    def test_one_step_is_no_chain_and_very_many_are_none(self) -> None:
        assert chains(("Read", "x"), ("stop", "")) == {}
        assert chains(*((f"tool{n}", "x") for n in range(20)), ("stop", "")) == {}

    @pytest.mark.parametrize(
        ("asked", "step"),
        [
            ("pytest -q", "Bash pytest"),
            ("cd a/b && FOO=1 BAR=x /usr/bin/pytest tests", "Bash pytest"),
            ("git commit -m 'my password is x'", "Bash git commit"),
            ("git -C /code/app status", "Bash git"),
            ("python -m pytest", "Bash python pytest"),
            ("npm run build", "Bash npm build"),
            ("uv run ruff check", "Bash uv ruff"),
            ("sudo make -j4 install", "Bash make install"),
            ("$(evil)", "Bash"),
            ("", "Bash"),
        ],
    )
    def test_of_a_command_only_what_it_is_called_is_kept(self, asked: str, step: str) -> None:
        (event,) = build_session("s", [("Bash", f"Bash: {asked}\nout")])
        found = procedures.parse_step(event)
        assert found is not None
        assert found.name == step

    @pytest.mark.parametrize(
        ("result", "failed"),
        [
            ("all fine", False),
            ("Exit code 0", False),
            ("Exit code: 127\nnot found", True),
            ("Process exited with code 1", True),
            ("Error: no such file", True),
            ("fatal: not a git repository", True),
            ("Traceback (most recent call last):", True),
            ("we speak of Error: handling", False),
        ],
    )
    def test_a_result_tells_whether_it_failed(self, result: str, failed: bool) -> None:
        (event,) = build_session("s", [("Bash", f"Bash: x\n{result}")])
        assert procedures.has_failed(event) is failed

    def test_so_does_the_agent(self) -> None:
        (event,) = build_session("s", [("Bash", "Bash: x")], error="true")
        assert procedures.parse_step(event) == Step(tool="Bash", command="x", failed=True)


class TestProcedures:
    def chain(self, used: int, succeeded: int) -> Chain:
        steps = ("Read", "Edit", "Bash pytest")
        return Chain(
            id=procedures.derive_chain_id("codex", steps),
            agent_id="codex",
            steps=steps,
            used=used,
            succeeded=succeeded,
            created_ms=NOW,
        )

    def test_what_was_done_three_times_is_one(self) -> None:
        assert procedures.derive_procedure(self.chain(2, 2), None) is None
        found = procedures.derive_procedure(self.chain(3, 2), None)
        assert found is not None
        assert (found.name, found.description) == (
            "read_edit_pytest",
            "Read, Edit, then Bash pytest",
        )
        assert (found.times_used, found.times_succeeded, found.times_failed) == (3, 2, 1)
        assert found.success_rate == pytest.approx(2 / 3)

    def test_one_that_mostly_fails_is_no_longer_active(self) -> None:
        failing = procedures.derive_procedure(self.chain(5, 1), None)
        assert failing is not None
        assert not failing.is_active
        mended = procedures.derive_procedure(self.chain(12, 8), failing)
        assert mended is not None
        assert mended.is_active

    def test_what_someone_has_set_stays(self) -> None:
        found = procedures.derive_procedure(self.chain(3, 3), None)
        assert found is not None
        off = replace(found, is_active=False, name="mine", fixed=frozenset({"is_active", "name"}))
        after = procedures.derive_procedure(self.chain(4, 4), off)
        assert after is not None
        assert (after.is_active, after.name, after.times_used) == (False, "mine", 4)

    def test_the_rate_of_what_was_never_used_is_a_half(self) -> None:
        found = procedures.derive_procedure(self.chain(3, 3), None)
        assert found is not None
        assert replace(found, times_used=0, times_succeeded=0).success_rate == 0.5
