"""Keys of shell commands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.lessons.model.commands import MAX_KEYS, read_commands


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("git push origin main", ("git push origin main", "git push", "git")),
        ("FOO=1 sudo -u web git -C /srv push -f", ("git push", "git")),
        (
            "cd api && npm run build:prod | tail -3",
            ("npm run build:prod", "npm run", "npm"),
        ),
        ("/opt/venv/bin/python3 -m pytest -q tests/a.py", ("pytest tests/a.py", "pytest")),
        ("time uv run --with rich pytest -k 'not slow'", ("pytest",)),
        ("bash -lc 'make client'", ("make client", "make")),
        ("python tools/sync.py --all", ("tools/sync.py",)),
        ("./gradlew assemble", ("gradlew assemble", "gradlew")),
        (
            "docker compose -f dev.yml up -d web",
            ("docker compose up web", "docker compose up", "docker compose", "docker"),
        ),
        (
            "cat <<'END' > notes.txt\nrm everything\nEND\nterraform apply",
            ("terraform apply", "terraform"),
        ),
        ('git commit -m "say: git push" && ls # git pull', ("git commit", "git")),
        ("for f in *.sql; do psql -h db.local -p 5433 -f $f; done", ("psql db.local", "psql")),
        (
            "mix deps.get; mix test",
            ("mix deps.get", "mix test", "mix"),
        ),
        ("echo hello", ()),
        ("", ()),
        ("'unclosed", ("unclosed",)),
    ],
)
def test_names_what_a_command_runs(command: str, keys: tuple[str, ...]) -> None:
    assert read_commands(command) == keys


def test_options_and_places_do_not_change_the_key() -> None:
    assert read_commands("terraform plan -out=x")[-2:] == read_commands("sudo terraform plan")[-2:]


@given(st.text(alphabet=st.sampled_from("abx -=/'\"\\|&;<>()$`{}\n#.EOF1")))
def test_any_command_is_read(command: str) -> None:
    keys = read_commands(command)
    assert keys == read_commands(command)
    assert len(keys) <= MAX_KEYS
    counts = [key.count(" ") for key in keys]
    assert counts == sorted(counts, reverse=True)


def test_a_long_command_is_read_in_part() -> None:
    assert len(read_commands("tool-" + " && tool-".join(map(str, range(9_999))))) == MAX_KEYS
