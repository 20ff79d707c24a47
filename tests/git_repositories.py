"""Real git repositories for tests: made, cloned and looked at by `git` itself."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Home, Memory, MemoryStatus
from agent_memory.kernel.ids import Domain, Millis

SECONDS = 60
GIT = shutil.which("git") or "git"
DOMAIN = Domain("project:app")
AT = Millis(1_769_783_400_000)


def build_environ(home: Path) -> dict[str, str]:
    """What the caller of a command would have, and nothing of this machine."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LC_ALL": "C",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
        "GIT_TERMINAL_PROMPT": "0",
    }


@dataclass(frozen=True, slots=True)
class Repository:
    """A folder in which git is run."""

    folder: Path
    environ: Mapping[str, str]

    @property
    def home(self) -> Home:
        """Where its refs are."""
        where = self.git("rev-parse", "--path-format=absolute", "--git-common-dir")
        return Home(str(Path(where).resolve()))

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def git(self, *arguments: str, given: bytes | None = None) -> str:
        return self.raw(*arguments, given=given).decode().strip()

    def raw(self, *arguments: str, given: bytes | None = None) -> bytes:
        run = subprocess.run(
            [GIT, *arguments],
            cwd=self.folder,
            env=self.environ,
            input=given if given is not None else b"",
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert run.returncode == 0, run.stderr.decode()
        return run.stdout

    def succeeds(self, *arguments: str) -> bool:
        return (
            subprocess.run(
                [GIT, *arguments],
                cwd=self.folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            ).returncode
            == 0
        )

    def commit(self, message: str = "change") -> str:
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.head

    def refs(self) -> dict[str, str]:
        listed = self.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split(" ") for line in listed)

    def note(self, namespace: str = "decisions", commit: str = "HEAD") -> bytes:
        return self.raw("notes", f"--ref=mem/{namespace}", "show", commit)

    def objects(self) -> bytes:
        """Everything that is said in any object of the repository, reachable or not."""
        listed = self.git("cat-file", "--batch-check=%(objectname)", "--batch-all-objects")
        return self.raw("cat-file", "--batch", given=listed.encode() + b"\n")


def make_repository(folder: Path, *, bare: bool = False, commits: int = 1) -> Repository:
    folder.mkdir(parents=True)
    repository = Repository(folder, build_environ(folder.parent))
    repository.git("init", "--quiet", "--initial-branch=main", *(["--bare"] if bare else []))
    for number in range(0 if bare else commits):
        repository.commit(f"commit {number}")
    return repository


def clone_repository(source: Repository, folder: Path, *options: str) -> Repository:
    folder.parent.mkdir(parents=True, exist_ok=True)
    outside = Repository(folder.parent, build_environ(folder.parent))
    outside.git("clone", "--quiet", *options, str(source.folder), str(folder))
    return Repository(folder, build_environ(folder.parent))


def route_over_ssh(repository: Repository, server: Repository) -> dict[str, str]:
    """Have `origin` lead to the server by ssh, so that the server's own git and hooks run; the
    environment in which it can be reached."""
    ssh = server.folder.with_suffix(".ssh")
    ssh.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    ssh.chmod(0o755)
    repository.git("remote", "set-url", "origin", f"ssh://host{server.folder}")
    return {"GIT_SSH_COMMAND": str(ssh), "GIT_SSH_VARIANT": "simple"}


def memory(
    summary: str,
    content: str = "",
    *,
    namespace: str = "decisions",
    domain: Domain = DOMAIN,
    at: int = AT,
    spec: str = "",
    tags: frozenset[str] = frozenset(),
    status: MemoryStatus = MemoryStatus.ACTIVE,
    commit: str = "",
) -> Memory:
    return Memory(
        digest=memories.compute_digest(namespace, summary, content, spec),
        namespace=namespace,
        domain=domain,
        summary=summary,
        content=content,
        created_ms=Millis(at),
        updated_ms=Millis(at),
        spec=spec,
        tags=tags,
        status=status,
        commit=commit,
    )
