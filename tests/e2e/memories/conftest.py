"""One user with a daemon, and a new repository for every test."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.command_runner import Home
from tests.git_repositories import Repository, make_repository
from tests.memory_commands import MemoryCommand

_numbers = count()


@pytest.fixture(scope="module")
def user() -> Iterator[Home]:
    with Home() as home:
        yield home


@pytest.fixture
def home(user: Home) -> Home:
    """Return the user's home with a running daemon, whatever the last test did to it."""
    user.serve()
    return user


@pytest.fixture
def repository(home: Home) -> Repository:
    return make_repository(home.work / f"app{next(_numbers)}")


@pytest.fixture
def memory(home: Home, repository: Repository) -> MemoryCommand:
    return MemoryCommand(home, repository.folder)
