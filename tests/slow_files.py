"""The files of tests that take longest, which run first.

One that begins last would keep one processor busy while the others have nothing left to do. The
figures are seconds of processor time, daemons and browsers included. Only their order counts: add a
file that takes more than ten seconds, and leave small changes alone.
"""

from pathlib import Path

TESTS = Path(__file__).parent
SECONDS = {
    "e2e/page/test_page.py": 43,
    "e2e/page/test_memories.py": 28,
    "e2e/docs/test_pages_for_people.py": 28,
    "e2e/daemon/test_lifecycle.py": 21,
    "e2e/page/test_session.py": 21,
    "e2e/docs/test_pages_for_programs.py": 20,
    "e2e/page/test_projects.py": 15,
    "e2e/team/test_nothing_crosses.py": 15,
    "e2e/backups/test_backup.py": 15,
    "e2e/page/test_fresh_eyes.py": 14,
    "e2e/cli/test_first_week.py": 12,
    "e2e/hooks/test_hook_storm.py": 12,
    "faults/test_team.py": 12,
    "e2e/docs/test_first_pages.py": 11,
    "e2e/grpc/test_search.py": 11,
    "e2e/hooks/test_hooks.py": 11,
    "contract/lessons/test_lesson_learning.py": 11,
    "e2e/lessons/test_lessons.py": 11,
    "e2e/upstream/test_team_server.py": 10,
    "e2e/daemon/test_migrate.py": 10,
    "e2e/packaging/test_packages.py": 10,
    "e2e/memories/test_memory_sync.py": 10,
}


def get_rank(path: Path) -> int:
    """Return a number to sort files by: the slowest have the lowest."""
    return -SECONDS.get(path.relative_to(TESTS).as_posix(), 0)
