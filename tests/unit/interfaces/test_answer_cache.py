"""Answers that are kept while the version of what they show stays."""

from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import AnswerCache


def test_an_answer_is_kept_until_the_version_changes() -> None:
    cache = AnswerCache()
    assert cache.find(1, "a") is None
    cache.keep(1, "a", b"one")
    assert cache.find(1, "a") == b"one"
    assert cache.find(1, "b") is None
    assert cache.find(2, "a") is None
    assert cache.find(1, "a") is None


def test_an_answer_of_an_earlier_version_is_not_kept() -> None:
    cache = AnswerCache()
    cache.find(2, "a")
    cache.keep(1, "a", b"old")
    assert cache.find(2, "a") is None


def test_the_cache_does_not_grow_without_end() -> None:
    cache = AnswerCache()
    cache.find(1, "a")
    cache.keep(1, "a", bytes(answers.MAX_CACHED))
    cache.keep(1, "b", b"one more")
    assert cache.find(1, "a") is not None
    assert cache.find(1, "b") is None
