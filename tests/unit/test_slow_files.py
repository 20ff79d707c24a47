"""The list of slow files names files that exist."""

from tests.slow_files import SECONDS, TESTS, get_rank


def test_each_file_of_the_list_exists() -> None:
    assert [name for name in SECONDS if not (TESTS / name).is_file()] == []


def test_the_slowest_come_first_and_all_others_after_them() -> None:
    files = sorted(TESTS.rglob("test_*.py"), key=get_rank)
    names = [file.relative_to(TESTS).as_posix() for file in files]
    assert set(names[: len(SECONDS)]) == set(SECONDS)
    listed = [SECONDS[name] for name in names[: len(SECONDS)]]
    assert listed == sorted(listed, reverse=True)
