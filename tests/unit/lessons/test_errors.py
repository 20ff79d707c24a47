"""Signatures of errors: the same for the same error, and none for what is no error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.lessons.model.errors import (
    MAX_READ,
    MAX_SIGNATURE,
    MAX_SIGNATURES,
    find_error_line,
    find_signatures,
)


@pytest.mark.parametrize(
    ("output", "signature"),
    [
        (
            "Traceback (most recent call last):\n  x\nModuleNotFoundError: No module named 'yaml'",
            "modulenotfounderror: no module named 'yaml'",
        ),
        (
            "E   sqlalchemy.exc.OperationalError: (psycopg) connection to 10.0.0.7:5432 refused",
            "sqlalchemy.exc.operationalerror: (psycopg) connection to # refused",
        ),
        (
            "src/lib.rs:14:9: error[E0382]: borrow of moved value: `rows`",
            "error[e0382]: borrow of moved value: `rows`",
        ),
        (
            "fatal: unable to access 'https://git.example/a/b.git/': Could not resolve host",
            "fatal: unable to access '<url>': could not resolve host",
        ),
        (
            "web/app.ts(31,5): error TS2345: Argument of type 'string' is not assignable",
            "error ts2345: argument of type 'string' is not assignable",
        ),
        (
            "2026-03-02T10:11:12Z permission denied while reading /var/run/docker.sock",
            "permission denied while reading <path>",
        ),
        ("cp: cannot stat '/tmp/x/seed.sql': No such file or directory",
         "cp: cannot stat '<path>/seed.sql': no such file or directory"),
        ("\x1b[31mbash: terraform: command not found\x1b[0m", "bash: terraform: command not found"),
    ],
)  # fmt: skip
def test_names_the_error_without_what_differs(output: str, signature: str) -> None:
    assert find_signatures(output)[0] == signature


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "OSError: [Errno 98] Address already in use: ('127.0.0.1', 8080)",
            "OSError: [Errno 98] Address already in use: ('127.0.0.1', 9931)",
        ),
        ("importer-2  | Error: No such queue 'mail'", "Error: No such queue 'mail'"),
        ("\u2a2f Error: No such queue 'mail'", "Error: No such queue 'mail'"),
        ("web_1 | 2024-05-02T10:00:00Z \u2716 Error: no free slot", "Error: no free slot"),
        (
            "[10:22:01] worker 3f2a9c1 timed out after 30s",
            "[23:59:59] worker 91bc02e timed out after 45s",
        ),
        (
            "RuntimeError: cannot open /home/a/models/v1 (attempt 2)",
            "RuntimeError: cannot open /data/b/models/v7 (attempt 3)",
        ),
    ],
)
def test_the_same_error_has_one_signature(one: str, other: str) -> None:
    assert find_signatures(one) == find_signatures(other) != ()


@pytest.mark.parametrize(
    "output",
    [
        "",
        "12 passed in 0.41s",
        "0 errors, 0 warnings",
        "FAILED (failures=3)",
        "exit code 1",
        "AssertionError: assert 3 == 4",
        "raise ValueError('missing rows')",
        "except KeyError as error:",
        "make: *** [test] Error 2",
    ],
)
def test_what_tells_no_error_has_no_signature(output: str) -> None:
    assert find_signatures(output) == ()


def test_named_errors_come_before_lines_that_fail() -> None:
    output = "could not load the plugin foo\nValueError: bad magic in header\n"
    assert find_signatures(output)[0] == "valueerror: bad magic in header"


def test_returns_the_line_as_it_stands_there() -> None:
    output = "Collecting rows\nKeyError: 'Region'\n1 failed"
    assert find_error_line(output) == "KeyError: 'Region'"


def test_reads_the_start_and_the_end_of_long_output() -> None:
    filler = "all is well here\n" * MAX_READ
    output = f"ConnectionError: no route\n{filler}IndexError: list too short\n"
    assert find_signatures(output) == ("connectionerror: no route", "indexerror: list too short")


@given(st.text(alphabet=st.sampled_from("aE:/\\.'(\n\t#0x1f-=error failed cannot\u0130\x1b[")))
def test_any_output_is_read(output: str) -> None:
    signatures = find_signatures(output)
    assert signatures == find_signatures(output)
    assert len(signatures) <= MAX_SIGNATURES
    assert all(0 < len(each) <= MAX_SIGNATURE for each in signatures)
    assert "\n" not in find_error_line(output)
