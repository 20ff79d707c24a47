"""Repositories that want something run, removed or sent elsewhere, and a trap that notices if they
succeed.

`python -m tests.hostile_repositories` tries them all on what calls git, and counts.
"""

import contextlib
import http.server
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from agent_memory.features.memories.adapters.git.notebook import GitNotebook
from agent_memory.features.memories.adapters.git.repositories import GitRepositories
from agent_memory.features.memories.model.memories import Home
from agent_memory.kernel.errors import AgentMemoryError
from tests.git_repositories import (
    DOMAIN,
    Repository,
    build_environ,
    clone_repository,
    make_repository,
    memory,
)

HOOKS = (
    *("pre-push", "reference-transaction", "post-update", "pre-auto-gc", "post-checkout"),
    *("pre-receive", "update", "post-receive", "proc-receive", "push-to-checkout"),
    *("post-merge", "post-rewrite", "fsmonitor-watchman"),
)
SECONDS = 20.0
LOST = "1" * 40  # an object that is nowhere
# What a user has beside a repository that links to it.
MINE = ("decisions", "refs/notes/mem/decisions", "remote/mem/decisions", LOST[2:])


@dataclass(frozen=True, slots=True)
class Trap:
    """Where it is seen what was run or asked: each by a name in `sprung()`."""

    folder: Path
    refusing: int  # the port of a server that asks for a password
    elsewhere: int  # the port of one that nobody should come to

    def list_sprung(self) -> set[str]:
        lost = {f"lost {name}" for name in MINE if not self._is_whole(self.mine / name)}
        return lost | {each.name for each in (self.folder / "sprung").iterdir()}

    def reset(self) -> None:
        for each in (self.folder / "sprung").iterdir():
            each.unlink()
        shutil.rmtree(self.mine, ignore_errors=True)
        for name in MINE:
            (self.mine / name).parent.mkdir(parents=True, exist_ok=True)
            (self.mine / name).write_text("mine\n")

    @property
    def mine(self) -> Path:
        return self.folder / "mine"

    @staticmethod
    def _is_whole(path: Path) -> bool:
        return path.is_file() and path.read_text() == "mine\n"

    def program(self, name: str) -> str:
        """The path of a program that springs the trap, and fails."""
        path = self.folder / f"run-{name}"
        path.write_text(f"#!/bin/sh\n: > {self.folder}/sprung/{name}\nexit 1\n")
        path.chmod(0o755)
        return str(path)

    def remote(self) -> Repository:
        return Repository(self.folder / "remote.git", build_environ(self.folder))


@contextlib.contextmanager
def open_trap(folder: Path) -> Iterator[Trap]:
    """A trap with its servers, and a remote with notes in it."""
    (folder / "sprung").mkdir(parents=True)
    source = make_repository(folder / "source")
    remote = clone_repository(source, folder / "remote.git", "--bare")
    writer = clone_repository(remote, folder / "writer")
    notebook = _notebook(writer, writer.home)
    notebook.write([memory("of the team")])
    notebook.push("origin", writer.environ)
    with _serve(folder, "refusing") as refusing, _serve(folder, "elsewhere") as elsewhere:
        yield Trap(folder, refusing, elsewhere)


@contextlib.contextmanager
def _serve(folder: Path, name: str) -> Iterator[int]:
    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if name == "elsewhere":
                (folder / "sprung/redirected").touch()
            if "leaked" in str(self.headers):
                (folder / "sprung/leaked").touch()
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="team"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


Dressing = Callable[[Repository, Trap], None]
ATTACKS: dict[str, Dressing] = {}


def attack(dressing: Dressing) -> Dressing:
    ATTACKS[dressing.__name__.strip("_")] = dressing
    return dressing


def _set(repository: Repository, **settings: str) -> None:
    """Add settings to its config, as one who writes the file does."""
    config = Path(repository.git("rev-parse", "--git-path", "config"))
    with (repository.folder / config).open("a") as file:
        for name, value in settings.items():
            section, _, rest = name.partition(".")
            middle, _, key = rest.rpartition(".")
            header = f'[{section} "{middle}"]' if middle else f"[{section}]"
            file.write(f'{header}\n\t{key} = "{value}"\n')


def _configs(name: str, address: str, *settings: tuple[str, str]) -> None:
    """An attack by config alone. `{run}` is the program; addresses: local, ssh, git, http."""

    def dress(repository: Repository, trap: Trap) -> None:
        places = {
            "local": str(trap.remote().folder),
            "ssh": f"ssh://host{trap.remote().folder}",
            "git": "git://127.0.0.1:1/team.git",
            "http": f"http://127.0.0.1:{trap.refusing}/team.git",
        }
        filled = {
            "run": trap.program(name),
            "trap": trap.folder,
            "elsewhere": trap.elsewhere,
            "refusing": trap.refusing,
        }
        place = places.get(address, address).format(**filled)
        repository.git("config", "remote.origin.url", place)
        named = {key.format(**filled): value.format(**filled) for key, value in settings}
        _set(repository, **named)

    ATTACKS[name] = dress


for _name, _address, *_settings in (
    ("core.sshCommand", "ssh", ("core.sshCommand", "{run}")),
    ("core.gitProxy", "git", ("core.gitProxy", "{run}")),
    ("core.askPass", "http", ("core.askPass", "{run}")),
    ("credential.helper", "http", ("credential.helper", "{run}")),
    ("credential.url.helper", "http", ("credential.http://127.0.0.1:{refusing}.helper", "{run}")),
    ("remote.uploadpack", "local", ("remote.origin.uploadpack", "{run}")),
    ("remote.receivepack", "local", ("remote.origin.receivepack", "{run}")),
    (
        "remote.vcs",
        "{run} x",
        ("remote.origin.vcs", "ext"),
        ("protocol.ext.allow", "always"),
    ),
    ("remote.url-ext", "ext::{run} x", ("protocol.allow", "always")),
    (
        "remote.pushurl-ext",
        "local",
        ("remote.origin.pushurl", "ext::{run} x"),
        ("protocol.allow", "always"),
    ),
    (
        "url.insteadOf-ext",
        "local",
        ("url.ext::{run} .insteadOf", "{trap}/"),
        ("protocol.ext.allow", "always"),
    ),
    (
        "url.pushInsteadOf-ext",
        "local",
        ("url.ext::{run} .pushInsteadOf", "{trap}/"),
        ("protocol.ext.allow", "always"),
    ),
    ("url.insteadOf", "http", ("url.http://127.0.0.1:{elsewhere}/.insteadOf", "http://127.0.0.1")),
    ("remote.pushurl", "http", ("remote.origin.pushurl", "http://127.0.0.1:{elsewhere}/t.git")),
    ("http.proxy", "http", ("http.proxy", "http://127.0.0.1:{elsewhere}")),
    ("remote.proxy", "http", ("remote.origin.proxy", "http://127.0.0.1:{elsewhere}")),
    ("http.extraHeader", "http", ("http.extraHeader", "X-Taken: leaked")),
    ("core.fsmonitor", "local", ("core.fsmonitor", "{run}")),
    ("core.editor", "local", ("core.editor", "{run}"), ("sequence.editor", "{run}")),
    ("core.pager", "local", ("core.pager", "{run}"), ("pager.fetch", "{run}")),
    ("gpg.program", "local", ("gpg.program", "{run}"), ("push.gpgSign", "if-asked")),
    ("gpg.ssh.program", "local", ("gpg.ssh.program", "{run}"), ("gpg.format", "ssh")),
    ("diff.external", "local", ("diff.external", "{run}"), ("diff.x.textconv", "{run}")),
    ("filter", "local", ("filter.x.clean", "{run}"), ("filter.x.process", "{run}")),
    ("merge.driver", "local", ("merge.x.driver", "{run}")),
    ("uploadpack.packObjectsHook", "local", ("uploadpack.packObjectsHook", "{run}")),
    ("submodule.update", "local", ("submodule.x.update", "!{run}")),
    ("alias", "local", ("alias.fetch", "!{run}"), ("alias.x", "!{run}")),
    ("gc.recentObjectsHook", "local", ("gc.recentObjectsHook", "{run}"), ("gc.auto", "1")),
    ("browser", "local", ("browser.x.cmd", "{run}"), ("man.x.cmd", "{run}")),
    ("made-up", "ssh", ("core.nextCommand", "{run}"), ("fetch.x.program", "{run}")),
):
    _configs(_name, _address, *_settings)


@attack
def include_path(repository: Repository, trap: Trap) -> None:
    more = trap.folder / "included"
    more.write_text(f"[core]\nsshCommand = {trap.program('include')}\n")
    _set(repository, **{"include.path": str(more), "includeIf.gitdir:/.path": str(more)})
    repository.git("config", "remote.origin.url", "ssh://host/team.git")


@attack
def worktree_config(repository: Repository, trap: Trap) -> None:
    _set(repository, **{"extensions.worktreeConfig": "true"})
    repository.git("config", "--worktree", "core.sshCommand", trap.program("worktree-config"))
    repository.git("config", "remote.origin.url", "ssh://host/team.git")


@attack
def hooks_path(repository: Repository, trap: Trap) -> None:
    """Hooks in the worktree, where a clone brings them."""
    _put_hooks(repository.folder / "hooks", trap)
    _set(repository, **{"core.hooksPath": str(repository.folder / "hooks")})
    repository.git("config", "remote.origin.url", str(trap.remote().folder))


def _put_hooks(folder: Path, trap: Trap) -> None:
    folder.mkdir(exist_ok=True)
    for name in HOOKS:
        (folder / name).write_text(Path(trap.program(f"hook-{name}")).read_text())
        (folder / name).chmod(0o755)


@attack
def hooks(repository: Repository, trap: Trap) -> None:
    """Of the repository, and of the one that its remote leads to, which lies beside it."""
    repository.git("config", "remote.origin.url", "./remote")
    theirs = clone_repository(trap.remote(), repository.folder / "remote", "--bare")
    for folder in (Path(repository.home), theirs.folder):
        _put_hooks(folder / "hooks", trap)
    _set(
        theirs,
        **{
            "receive.procReceiveRefs": "refs/notes",
            "uploadpack.packObjectsHook": trap.program("packObjectsHook"),
            "core.alternateRefsCommand": trap.program("theirs-alternateRefsCommand"),
            "receive.autogc": "true",
            "gc.auto": "1",
        },
    )


@attack
def signed_push(repository: Repository, trap: Trap) -> None:
    """The remote asks for a signature, and the config says by which program."""
    repository.git("config", "remote.origin.url", "./remote")
    theirs = clone_repository(trap.remote(), repository.folder / "remote", "--bare")
    _set(theirs, **{"receive.certNonceSeed": "x"})
    _set(repository, **{"push.gpgSign": "if-asked", "gpg.program": trap.program("signed-push")})


@attack
def alternates(repository: Repository, trap: Trap) -> None:
    """Git asks an alternate for its refs, in a process that reads its config."""
    other = clone_repository(trap.remote(), repository.folder / "other.git", "--bare")
    command = {"core.alternateRefsCommand": trap.program("alternateRefsCommand")}
    for each in (repository, other):
        _set(each, **command)
    (Path(repository.home) / "objects/info/alternates").write_text(f"{other.folder}/objects\n")
    repository.git("config", "remote.origin.url", str(trap.remote().folder))


@attack
def promisor(repository: Repository, trap: Trap) -> None:
    """What is missing would be fetched, by a program that the config names."""
    home = Path(repository.home)
    repository.git("repack", "-a", "-d", "-q")
    for pack in home.glob("objects/pack/*.pack"):
        pack.with_suffix(".promisor").touch()
    _set(
        repository,
        **{
            "core.repositoryFormatVersion": "1",
            "extensions.partialClone": "origin",
            "remote.origin.promisor": "true",
            "remote.origin.uploadpack": trap.program("promisor"),
        },
    )
    repository.git("config", "--unset-all", "core.repositoryFormatVersion")
    repository.git("config", "core.repositoryFormatVersion", "1")
    repository.git("config", "remote.origin.url", str(trap.remote().folder))
    (home / "refs/heads/gone").write_text("1" * 40 + "\n")


@attack
def legacy_remotes(repository: Repository, trap: Trap) -> None:
    repository.git("remote", "remove", "origin")
    folder = Path(repository.home) / "remotes"
    folder.mkdir()
    (folder / "origin").write_text(f"URL: ext::{trap.program('legacy')} x\n")
    _set(repository, **{"protocol.allow": "always"})


@attack
def attributes(repository: Repository, trap: Trap) -> None:
    run = trap.program("attributes")
    (Path(repository.home) / "info").mkdir(exist_ok=True)
    (Path(repository.home) / "info/attributes").write_text("* filter=y diff=y merge=y\n")
    (repository.folder / ".gitattributes").write_text("* filter=y diff=y merge=y\n")
    _set(repository, **{"filter.y.smudge": run, "filter.y.clean": run, "diff.y.command": run})
    repository.git("config", "remote.origin.url", str(trap.remote().folder))


@attack
def dot_git_is_a_file(repository: Repository, trap: Trap) -> None:
    away = repository.folder / "away"
    Path(repository.home).rename(away)
    (repository.folder / ".git").write_text(f"gitdir: {away}\n")
    ATTACKS["core.sshCommand"](repository, trap)


@attack
def local_program(repository: Repository, trap: Trap) -> None:
    """A PATH with an empty entry means the folder in which git runs."""
    for name in ("ssh", "git-remote-http", "git"):
        (repository.folder / name).write_text(Path(trap.program(f"path-{name}")).read_text())
        (repository.folder / name).chmod(0o755)
    repository.git("config", "remote.origin.url", "ssh://host/team.git")


def _link(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


@attack
def refs_linked(repository: Repository, trap: Trap) -> None:
    _link(Path(repository.home) / "refs", trap.mine / "refs")


@attack
def notes_linked(repository: Repository, trap: Trap) -> None:
    _link(Path(repository.home) / "refs/notes/mem", trap.mine)


@attack
def copies_linked(repository: Repository, trap: Trap) -> None:
    _link(Path(repository.home) / "refs/notes/other", trap.mine / "remote")


@attack
def log_linked(repository: Repository, trap: Trap) -> None:
    """Erasing removes a log, also where it has copies only to remove."""
    _link(Path(repository.home) / "logs/refs/notes/mem", trap.mine)


@attack
def logs_linked(repository: Repository, trap: Trap) -> None:
    """And a ref that leads nowhere, to be mended."""
    home = Path(repository.home)
    _link(home / "logs", trap.mine)
    (home / "refs/notes/mem").mkdir(parents=True, exist_ok=True)
    (home / "refs/notes/mem/decisions").write_text(f"{LOST}\n")


@attack
def objects_linked(repository: Repository, trap: Trap) -> None:
    """A ref leads to an object whose file is none."""
    home = Path(repository.home)
    _link(home / "objects" / LOST[:2], trap.mine)
    (home / "refs/notes/mem").mkdir(parents=True, exist_ok=True)
    (home / "refs/notes/mem/decisions").write_text(f"{LOST}\n")


def attack_with_all(repository: Repository, trap: Trap, address: str) -> None:
    """All that fits together in one config, with an address of this kind."""
    alone = {
        "hooks",
        "signed_push",
        "alternates",
        "promisor",
        "legacy_remotes",
        "dot_git_is_a_file",
        *(name for name in ATTACKS if name.endswith("_linked")),
    }
    for name, dress in ATTACKS.items():
        if name not in alone:
            dress(repository, trap)
    for name in ("url", "vcs", "pushurl"):
        repository.git("config", "--unset-all", f"remote.origin.{name}")
    ATTACKS["alternates"](repository, trap)
    addresses = {
        "local": str(trap.remote().folder),
        "ssh": f"ssh://host{trap.remote().folder}",
        "git": "git://127.0.0.1:1/team.git",
        "http": f"http://127.0.0.1:{trap.refusing}/team.git",
        "ext": f"ext::{trap.program('url-ext')} x",
    }
    repository.git("config", "remote.origin.url", addresses[address])


def make_embedded(outer: Path, trap: Trap) -> Repository:
    """A folder that is itself a bare repository, as it can be committed and cloned."""
    bare = clone_repository(trap.remote(), outer / "docs", "--bare")
    ATTACKS["core.sshCommand"](bare, trap)
    ATTACKS["core.fsmonitor"](bare, trap)
    bare.git("config", "remote.origin.uploadpack", trap.program("embedded-uploadpack"))
    bare.git("config", "remote.origin.receivepack", trap.program("embedded-receivepack"))
    return bare


def _notebook(repository: Repository, home: Home) -> GitNotebook:
    data = repository.folder.parent / "data"
    return GitRepositories(data, remote_seconds=SECONDS).open_notebook(home, DOMAIN)


def calls(repository: Repository, environ: Mapping[str, str]) -> dict[str, Callable[[], object]]:
    """All that runs git, or opens a repository."""
    repositories = GitRepositories(repository.folder.parent / "data", remote_seconds=SECONDS)

    def notebook() -> GitNotebook:
        located = repositories.locate(str(repository.folder), environ)
        assert located is not None
        return repositories.open_notebook(located.home, DOMAIN)

    said = memory("of ours", "and how it was decided")
    return {
        "capture": lambda: notebook().write([said]),
        "fetch": lambda: notebook().fetch("origin", environ),
        "push": lambda: notebook().push("origin", environ),
        "rehome": lambda: notebook().rehome(),
        "read": lambda: notebook().read(),
        "erase": lambda: notebook().erase([said.key]),
        "earlier": lambda: notebook().read_legacy(),
        "mend": lambda: notebook().repair(),
    }


def attempt(repository: Repository, environ: Mapping[str, str]) -> int:
    """Make all calls, whatever they answer. How many were made."""
    made_calls = calls(repository, environ)
    for call in made_calls.values():
        with contextlib.suppress(AgentMemoryError):
            call()
    return len(made_calls)


def make_victim(trap: Trap, folder: Path) -> Repository:
    """A clone with notes of its own, in packs, so that erasing has something to look at."""
    repository = clone_repository(trap.remote(), folder)
    notebook = _notebook(repository, repository.home)
    notebook.write([memory("of ours", "and how it was decided")])
    repository.git("gc", "--quiet")
    repository.git("commit-graph", "write", "--reachable")
    return repository


def try_attack(trap: Trap, name: str) -> tuple[int, set[str]]:
    """One attack, alone. How many calls were made, and what they sprung."""
    trap.reset()
    repository = make_victim(trap, trap.folder / f"victim-{name}")
    environ = {**repository.environ, "PATH": f":{repository.environ['PATH']}"}
    ATTACKS[name](repository, trap)
    made_calls = attempt(repository, environ)
    return made_calls, trap.list_sprung()


def main() -> int:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    made_calls = 0
    sprung: list[str] = []
    with tempfile.TemporaryDirectory() as folder, open_trap(Path(folder) / "trap") as trap:
        for name in ATTACKS:
            count, found = try_attack(trap, name)
            made_calls += count
            sprung += sorted(found)
            print(f"{name:28} {', '.join(sorted(found)) or '-'}")  # noqa: T201
    print(  # noqa: T201
        f"hostile configurations: {len(ATTACKS)}, calls: {made_calls},"
        f" commands run, redirections, or files lost: {len(sprung)}"
    )
    return int(bool(sprung))


if __name__ == "__main__":
    sys.exit(main())
