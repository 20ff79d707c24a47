"""Isolation: a git directory with our own configuration over the objects and refs of a repository.

A `git` process in it reads the configuration of the user and of the machine. It reads nothing else
that the repository brings: no config file or its includes, no worktree config, hooks, attributes,
grafts or legacy remotes. So a key that a later version of git introduces has no effect either.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

# The data of a repository. Everything else in it configures git.
_DATA = ("objects", "refs", "packed-refs", "logs", "shallow", "worktrees")
# These override the user's: no hooks, no maintenance, no config of an alternate repository.
SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.fsync", "all"),  # by default git does not sync loose objects
    ("core.fsyncMethod", "fsync"),
    ("core.alternateRefsCommand", "true"),  # a program of that name: it lists nothing
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("receive.autogc", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("repack.writeBitmaps", "false"),  # the default of a repository with a worktree
)
OWNER_ONLY = 0o700
_NOWHERE = "/dev/null/none"


@contextlib.contextmanager
def isolate(home: Path, scratch: Path, address: str = "") -> Iterator[Path]:
    """Provide such a directory for the repository at `home`, below `scratch`, while the block runs.
    If the process is killed, the next daemon removes it.

    `address` is the remote in use: the user's configuration may have settings for it (`includeIf
    "hasconfig:remote.*.url:..."`).
    """
    scratch.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        isolated = Path(folder)
        for name in _DATA:
            (isolated / name).symlink_to(home / name)
        (isolated / "HEAD").write_text("ref: refs/heads/none\n")
        (isolated / "config").write_text(
            _config(home, address), encoding="utf-8", errors="surrogateescape"
        )
        yield isolated


def _config(home: Path, address: str) -> str:
    partial = any(home.glob("objects/pack/*.promisor"))
    lines = ["[core]", f"repositoryformatversion = {int(partial)}", "bare = true"]
    if partial:
        # Objects may be missing, and git must not fetch them.
        lines += ["[extensions]", "partialClone = none"]
        lines += ['[remote "none"]', f"url = {_NOWHERE}", "promisor = true"]
    if address:
        lines += ['[remote "memories"]', f"url = {_quote(address)}"]
    for key, value in SETTINGS:
        section, _, name = key.partition(".")
        lines += [f"[{section}]", f"{name} = {value}"]
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
