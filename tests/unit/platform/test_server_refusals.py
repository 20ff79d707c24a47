"""What is advised when a database server refuses."""

import pytest

from agent_memory.platform.store.server_refusals import find_advice, is_answer


@pytest.mark.parametrize(
    ("code", "reason", "advice"),
    [
        (None, 'FATAL: password authentication failed for user "me"', "~/.pgpass"),
        (None, "fe_sendauth: no password supplied", "~/.pgpass"),
        (None, 'FATAL: database "memroy" does not exist', "`createdb memroy`"),
        (None, 'FATAL: role "bob" does not exist', "`createuser bob`"),
        (None, 'FATAL: no pg_hba.conf entry for host "10.0.0.1"', "pg_hba.conf"),
        ("42501", "permission denied for schema agent_memory", "GRANT USAGE ON SCHEMA"),
        ("42501", "permission denied for database memory", "GRANT CREATE ON DATABASE"),
        ("42501", "keine Berechtigung für Tabelle kv", "GRANT"),
        (None, "FATAL: sorry, too many clients already", "max_connections"),
    ],
)
def test_a_refusal_comes_with_a_next_step(code: str | None, reason: str, advice: str) -> None:
    assert advice in find_advice(code, reason)
    assert code or is_answer(reason)


def test_silence_is_no_refusal() -> None:
    reason = 'connection to server at "db.example", port 5432 failed: Connection refused'
    assert find_advice(None, reason) == ""
    assert not is_answer(reason)
