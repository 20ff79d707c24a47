"""The files of tests that take longest, which run first.

One that begins last would keep one processor busy while the others have nothing left to do. The
figures are seconds of processor time, daemons and browsers included. Only their order counts: add a
file that takes more than ten seconds, and leave small changes alone.
"""

from pathlib import Path

TESTS = Path(__file__).parent
SECONDS = {
    "e2e/page/test_page.py": 63,
    "e2e/docs/test_pages_for_people.py": 57,
    "e2e/packaging/test_packages.py": 50,
    "e2e/page/test_memories.py": 48,
    "e2e/daemon/test_lifecycle.py": 40,
    "e2e/page/test_session.py": 39,
    "e2e/docs/test_pages_for_programs.py": 37,
    "e2e/cli/test_cli.py": 33,
    "e2e/page/test_projects.py": 29,
    "e2e/cli/test_first_week.py": 28,
    "e2e/docs/test_first_pages.py": 28,
    "e2e/backups/test_backup.py": 25,
    "e2e/page/test_fresh_eyes.py": 23,
    "e2e/hooks/test_hook_fuzz.py": 22,
    "e2e/grpc/test_search.py": 17,
    "e2e/daemon/test_upgrade.py": 15,
    "contract/runs/test_workspace_escapes.py": 14,
    "e2e/cli/test_memory_cli.py": 14,
    "e2e/cli/test_settings.py": 13,
    "unit/platform/test_write_ahead_log.py": 13,
    "contract/memories/test_hostile_repositories.py": 13,
    "e2e/cli/test_kontekst.py": 13,
    "e2e/toc/test_command_summaries.py": 13,
    "contract/memories/test_notebook.py": 12,
    "e2e/daemon/test_verify.py": 12,
    "e2e/hooks/test_agent_install.py": 12,
    "e2e/backups/test_archive.py": 11,
    "e2e/hooks/test_hooks.py": 11,
    "property/interfaces/test_memory_files.py": 11,
}


def get_rank(path: Path) -> int:
    """Return a number to sort files by: the slowest have the lowest."""
    return -SECONDS.get(path.relative_to(TESTS).as_posix(), 0)
