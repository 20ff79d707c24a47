"""The contract of every secrets filter: text without a secret comes back unchanged."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.features.secrets.ports import SecretsFilter

FILTERS: dict[str, Callable[[], SecretsFilter]] = {
    "pass-through": PassThrough,
    "redact": lambda: Re2Filter(mode="redact"),
    "block": lambda: Re2Filter(mode="block"),
    "warn": lambda: Re2Filter(mode="warn"),
}
CLEAN = (
    "",
    " ",
    "\0",
    "\udcff",
    "日本語のテキスト 🙂",
    "def add(a: int, b: int) -> int:\n    return a + b\n",
    "We agreed to keep the token in the vault, and to rotate it each month.",
    "a" * (1 << 20),
    "\n" * (1 << 20),
)


@pytest.fixture(params=FILTERS, scope="module")
def cleaner(request: pytest.FixtureRequest) -> SecretsFilter:
    return FILTERS[request.param]()


@pytest.mark.parametrize("text", CLEAN, ids=lambda text: ascii(text[:20]))
def test_text_without_a_secret_comes_back_as_it_is(cleaner: SecretsFilter, text: str) -> None:
    assert cleaner.clean(text) == text


@settings(deadline=None)
@given(text=st.text(st.characters(exclude_categories=["N"]), max_size=200))
def test_any_text_without_digits_of_its_own_survives_or_is_marked(
    cleaner: SecretsFilter, text: str
) -> None:
    cleaned = cleaner.clean(text)
    assert cleaned == text or "[REDACTED:" in cleaned


@settings(deadline=None)
@given(texts=st.lists(st.text(max_size=60), max_size=4))
def test_texts_that_pass_the_quick_check_are_unchanged(
    cleaner: SecretsFilter, texts: list[str]
) -> None:
    if cleaner.is_clean(texts):
        assert [cleaner.clean(text) for text in texts] == texts


def test_threads_share_a_filter(cleaner: SecretsFilter) -> None:
    texts = [f"{text} {n}" for n in range(50) for text in CLEAN[:7]]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(cleaner.clean, texts)) == texts
