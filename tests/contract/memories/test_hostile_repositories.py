"""Hostile repositories: no git process of ours does what their config says."""

import os
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from agent_memory.features.memories.adapters.git import programs
from agent_memory.features.memories.adapters.git.notebook import GitNotebook
from agent_memory.features.memories.adapters.git.repositories import GitRepositories
from agent_memory.kernel.errors import GitFailed, RemoteUnavailable
from tests import hostile_repositories as hostile
from tests.git_repositories import (
    DOMAIN,
    GIT,
    SECONDS,
    Repository,
    build_environ,
    clone_repository,
    make_repository,
    memory,
    route_over_ssh,
)
from tests.hostile_repositories import ATTACKS, Trap
from tests.inline_worker import InlineWorker

# With plain git these succeed; the others are for versions of git that are yet to come.
DANGEROUS = (
    *("core.sshCommand", "core.gitProxy", "core.askPass", "core.fsmonitor", "credential.helper"),
    *("credential.url.helper", "remote.uploadpack", "remote.receivepack", "remote.vcs"),
    *("remote.url-ext", "remote.pushurl-ext", "url.insteadOf-ext", "url.pushInsteadOf-ext"),
    *("url.insteadOf", "remote.pushurl", "http.proxy", "remote.proxy", "http.extraHeader"),
    *("hooks_path", "alias", "include_path", "worktree_config", "hooks", "signed_push"),
    *("alternates", "promisor", "legacy_remotes", "attributes", "dot_git_is_a_file"),
    "local_program",
)
_numbers = count()


@pytest.fixture(scope="module")
def module_trap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trap]:
    with hostile.open_trap(tmp_path_factory.mktemp("hostile") / "trap") as trap:
        yield trap


@pytest.fixture
def trap(module_trap: Trap) -> Trap:
    module_trap.reset()
    return module_trap


def plainly(repository: Repository) -> None:
    """Run the git commands that we run and that a user would."""
    environ = {**repository.environ, "PATH": f":{repository.environ['PATH']}"}
    for words in (
        ("status",),
        ("add", "."),
        ("fetch", "origin", "refs/notes/mem/*:refs/notes/origin/mem/*"),
        ("push", "origin", "refs/notes/mem/decisions"),
        ("repack", "-A", "-d", "-q"),
        ("x",),
    ):
        subprocess.run(
            [GIT, *words],
            cwd=repository.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )


class TestAttacks:
    @pytest.mark.parametrize("name", ATTACKS)
    def test_nothing_is_run_and_nothing_asked_elsewhere(self, trap: Trap, name: str) -> None:
        calls, sprung = hostile.try_attack(trap, name)
        assert calls == 8
        assert sprung == set()

    @pytest.mark.parametrize("address", ["local", "ssh", "git", "http", "ext"])
    def test_nor_by_all_of_it_at_once(self, trap: Trap, address: str) -> None:
        repository = hostile.make_victim(trap, trap.folder / f"all-{address}")
        hostile.attack_with_all(repository, trap, address)
        hostile.attempt(repository, repository.environ)
        assert trap.list_sprung() == set()

    @pytest.mark.parametrize("name", DANGEROUS)
    def test_the_trap_notices_plain_git(self, trap: Trap, name: str) -> None:
        repository = hostile.make_victim(trap, trap.folder / f"plain-{name}-{next(_numbers)}")
        ATTACKS[name](repository, trap)
        plainly(repository)
        assert trap.list_sprung()

    def test_a_folder_that_is_a_bare_repository(self, trap: Trap, tmp_path: Path) -> None:
        outer = make_repository(tmp_path / "outer")
        outer.git("remote", "add", "origin", str(trap.remote().folder))
        inner = hostile.make_embedded(outer.folder, trap)
        before = inner.refs()
        assert hostile.attempt(inner, inner.environ)
        assert trap.list_sprung() == set()
        assert inner.refs() == before
        assert "refs/notes/mem/decisions" in outer.refs()

    def test_nor_where_it_is_named(self, trap: Trap, tmp_path: Path) -> None:
        inner = hostile.make_embedded(tmp_path, trap)
        hostile.attempt(inner, {**inner.environ, "GIT_DIR": str(inner.folder)})
        assert trap.list_sprung() == set()

    def test_a_config_that_no_program_may_open(self, trap: Trap, tmp_path: Path) -> None:
        """No program that runs here even reads the file."""
        repository = hostile.make_victim(trap, tmp_path / "app")
        home = Path(repository.home)
        (home / "config").write_text("[broken\n")
        ended = programs.run_git(
            home,
            ["count-objects"],
            repository.environ,
            scratch=tmp_path / "scratch",
            seconds=SECONDS,
        )
        assert ended.code == 0, ended
        assert not repository.succeeds("count-objects")

    @pytest.mark.parametrize(
        "address",
        [
            "ext::sh -c true",
            "-oProxyCommand=x:y",
            "ssh://-oProxyCommand=x/y",
            "ssh://user@-oProxyCommand=x/y",
            "git@-oProxyCommand=x:y",
            "host:-x",
            "--upload-pack=x",
            "https://host/\nurl = x",
            "gopher://host/x",
            "x::https://host/y",
            "::x",
        ],
    )
    def test_no_such_address_is_used(self, tmp_path: Path, address: str) -> None:
        app = make_repository(tmp_path / "app")
        app.git("config", "remote.origin.url", address)
        notebook = opened(app)
        notebook.write([memory("x")])
        for call in (notebook.fetch, notebook.push):
            with pytest.raises(RemoteUnavailable, match="address that is not used"):
                call("origin", app.environ)

    def test_links_in_the_place_of_refs_are_not_followed(self, tmp_path: Path) -> None:
        app = make_repository(tmp_path / "app")
        mine = tmp_path / "mine"
        mine.mkdir()
        for root in (Path(app.home), Path(app.home) / "logs"):
            for name in ("notes", "notes/mem", "notes/mem/decisions"):
                link = root / "refs" / name
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(mine / "made" if name.endswith("decisions") else mine)
                with pytest.raises(GitFailed, match="is a link"):
                    opened(app).write([memory("x")])
                link.unlink()
        assert list(mine.iterdir()) == []
        opened(app).write([memory("x")])

    def test_what_is_erased_is_not_removed_behind_a_link(self, tmp_path: Path) -> None:
        """The objects belong to another repository, which needs them."""
        app = make_repository(tmp_path / "app")
        said = memory("x", "in both")
        opened(app).write([said])
        mine = tmp_path / "mine"
        mine.mkdir()
        for folder in (Path(app.home) / "objects").glob("??"):
            folder.rename(mine / folder.name)
            folder.symlink_to(mine / folder.name)
        before = sorted(mine.rglob("*"))
        opened(app).erase([said.key])
        assert set(before) <= set(mine.rglob("*"))

    def test_a_log_behind_a_link_is_not_removed(self, tmp_path: Path) -> None:
        app = make_repository(tmp_path / "app")
        opened(app).write([memory("x")])
        app.git("update-ref", "refs/notes/origin/mem/decisions", "refs/notes/mem/decisions")
        log = Path(app.home) / "logs/refs/notes/mem"
        log.rename(tmp_path / "mine")
        log.symlink_to(tmp_path / "mine")
        with pytest.raises(GitFailed, match="is a link"):
            opened(app).erase([memory("another").key])
        assert (tmp_path / "mine/decisions").exists()


def opened(repository: Repository, remotes: str = "data") -> GitNotebook:
    return GitRepositories(repository.folder.parent / remotes, InlineWorker()).open_notebook(
        repository.home, DOMAIN
    )


@pytest.fixture
def remote(tmp_path: Path) -> Repository:
    return clone_repository(make_repository(tmp_path / "source"), tmp_path / "remote.git", "--bare")


@pytest.fixture
def clone(remote: Repository, tmp_path: Path) -> Repository:
    return clone_repository(remote, tmp_path / "clone")


class TestTheUsersOwnConfiguration:
    """The user's configuration is trusted and stays in effect."""

    @pytest.mark.parametrize(
        "condition", ["gitdir:{git}", "gitdir:{folder}/", "hasconfig:remote.*.url:ssh://host/**"]
    )
    def test_conditions_mean_the_users_repository(
        self, clone: Repository, remote: Repository, tmp_path: Path, condition: str
    ) -> None:
        ssh = route_over_ssh(clone, remote)["GIT_SSH_COMMAND"]
        (tmp_path / "keys").write_text(f"[core]\nsshCommand = {ssh}\n[ssh]\nvariant = simple\n")
        wanted = condition.format(git=clone.home, folder=clone.folder)
        (tmp_path / "gitconfig").write_text(f'[includeIf "{wanted}"]\npath = {tmp_path}/keys\n')
        environ = {**clone.environ, "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig")}
        notebook = opened(clone)
        notebook.write([memory("x")])
        assert notebook.push("origin", environ)
        assert "refs/notes/mem/decisions" in remote.refs()

    def test_what_is_not_used_is_named_where_it_may_be_missed(
        self, clone: Repository, remote: Repository, tmp_path: Path
    ) -> None:
        route_over_ssh(clone, remote)
        refusing = tmp_path / "refusing"
        refusing.write_text("#!/bin/sh\necho 'Permission denied (publickey).' >&2\nexit 255\n")
        refusing.chmod(0o755)
        clone.git("config", "core.sshCommand", "ssh -i ~/.ssh/deploy")
        clone.git("config", "credential.https://ada:hunter2222@host.helper", "store")
        clone.git("config", "remote.upstream.proxy", "http://proxy")
        environ = {**clone.environ, "GIT_SSH_COMMAND": str(refusing)}
        with pytest.raises(RemoteUnavailable) as caught:
            opened(clone).fetch("origin", environ)
        said = str(caught.value)
        assert f"core.sshcommand, credential.https://host.helper in {clone.home}/config" in said
        assert "git config --global" in said
        assert "hunter" not in said
        assert "upstream" not in said

    def test_another_way_to_the_same_repository_is_pushed_by(
        self, clone: Repository, remote: Repository
    ) -> None:
        clone.git("remote", "set-url", "--push", "origin", f"file://{remote.folder}/")
        notebook = opened(clone)
        notebook.write([memory("x")])
        assert notebook.push("origin", clone.environ)

    def test_another_repository_is_not_pushed_to_unless_it_is_named(
        self, clone: Repository, remote: Repository, tmp_path: Path
    ) -> None:
        fork = clone_repository(remote, tmp_path / "fork.git", "--bare")
        clone.git("remote", "set-url", "--push", "origin", str(fork.folder))
        clone.git("remote", "add", "fork", str(fork.folder))
        notebook = opened(clone)
        notebook.write([memory("x")])
        with pytest.raises(RemoteUnavailable, match=r"memory config set memories\.remote"):
            notebook.push("origin", clone.environ)
        assert "refs/notes/mem/decisions" not in {**fork.refs(), **remote.refs()}
        assert notebook.push("fork", clone.environ)
        assert "refs/notes/mem/decisions" in fork.refs()

    @pytest.mark.parametrize("kind", ["worktree", "linked worktree", "without its suffix"])
    def test_a_remote_on_this_machine_may_be_of_any_kind(
        self, clone: Repository, tmp_path: Path, kind: str
    ) -> None:
        other = clone_repository(clone, tmp_path / "other")
        other.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
        address = {
            "worktree": other.folder,
            "linked worktree": tmp_path / "linked",
            "without its suffix": tmp_path / "remote",
        }[kind]
        clone.git("config", "remote.origin.url", str(address))
        notebook = opened(clone)
        notebook.write([memory("x")])
        assert notebook.push("origin", clone.environ)
        assert not notebook.fetch("origin", clone.environ)
        there = Repository(address, build_environ(tmp_path)) if address.exists() else None
        assert there is None or "refs/notes/mem/decisions" in there.refs()


class TestErasing:
    """Isolation still shows git everything that protects an object."""

    def test_in_a_partial_clone(
        self, clone: Repository, remote: Repository, tmp_path: Path
    ) -> None:
        remote.git("config", "uploadpack.allowFilter", "true")
        (clone.folder / "file").write_text("text\n")
        clone.git("add", "file")
        clone.commit()
        clone.git("push", "--quiet", "origin", "main")
        outside = Repository(tmp_path, build_environ(tmp_path))
        url = f"file://{remote.folder}"
        outside.git("clone", "--quiet", "--no-checkout", "--filter=blob:none", url, "partial")
        partial = Repository(tmp_path / "partial", build_environ(tmp_path))
        notebook = opened(partial)
        notebook.write([memory("x", "to be erased")])
        partial.git("gc", "--quiet")
        assert notebook.erase([memory("x", "to be erased").key]) == 1
        assert not notebook.read().memories

    def test_with_a_split_index_and_linked_worktrees(
        self, clone: Repository, tmp_path: Path
    ) -> None:
        notebook = opened(clone)
        notebook.write([memory("x", "held by an index"), memory("y", "held by a worktree")])
        clone.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
        linked = Repository(tmp_path / "linked", clone.environ)
        clone.git("update-index", "--split-index")
        tree = clone.git("ls-tree", "-r", "refs/notes/mem/decisions").split()[2]
        clone.git("update-index", "--add", "--cacheinfo", f"100644,{tree},staged")
        linked.git("checkout", "--quiet", "--detach", "refs/notes/mem/decisions")
        clone.git("gc", "--quiet")
        notebook.erase([memory("x", "held by an index").key])
        assert clone.raw("cat-file", "blob", tree)
        assert linked.succeeds("fsck", "--connectivity-only")


class TestControlFiles:
    """Files that libgit2 reads whole, while the process waits, are checked first."""

    def located(self, repository: Repository) -> None:
        data = repository.folder.parent / "data"
        GitRepositories(data).locate(str(repository.folder), {})

    @pytest.mark.parametrize("name", ["config", "packed-refs", "commondir", "shallow"])
    def test_a_fifo_is_not_waited_for(self, tmp_path: Path, name: str) -> None:
        app = make_repository(tmp_path / "app")
        path = Path(app.home) / name
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        with pytest.raises(GitFailed, match="is not a regular file"):
            self.located(app)

    @pytest.mark.parametrize(
        "name",
        [
            *("refs/heads/main", "refs/heads/next", "refs/notes/mem/decisions"),
            *("refs/notes/cs/decisions", "{object of HEAD}"),
        ],
    )
    def test_nor_one_in_the_place_of_a_ref_or_its_commit(self, tmp_path: Path, name: str) -> None:
        app = make_repository(tmp_path / "app")
        opened(app).write([memory("x")])
        if name == "{object of HEAD}":
            name = f"objects/{app.head[:2]}/{app.head[2:]}"
        home = Path(app.home)
        if name == "refs/heads/next":
            (home / "refs/heads/main").write_text("ref: refs/heads/next\n")
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        with pytest.raises(GitFailed, match="is not a regular file"):
            self.located(app)

    def test_mending_waits_for_none_either(self, tmp_path: Path) -> None:
        app = make_repository(tmp_path / "app")
        home = Path(app.home)
        opened(app).write([memory("x")])
        commit = app.refs()["refs/notes/mem/decisions"]
        (home / "objects" / commit[:2] / commit[2:]).unlink()
        log = home / "logs/refs/notes/mem/decisions"
        log.unlink()
        os.mkfifo(log)
        assert opened(app).repair() == 1

    @pytest.mark.parametrize(
        "text", ["[include]\npath = fifo\n", '[includeIf "gitdir:/"] path = "fifo"\n', "{file}"]
    )
    def test_nor_one_that_is_included(self, tmp_path: Path, text: str) -> None:
        app = make_repository(tmp_path / "app")
        home = Path(app.home)
        os.mkfifo(home / "fifo")
        (home / "more").write_text("[include]\n  PATH=fifo\n")
        with (home / "config").open("a") as file:
            file.write(text.format(file="[include]\npath = more\n"))
        with pytest.raises(GitFailed, match="is not a regular file"):
            self.located(app)

    def test_what_a_config_includes_counts(self, tmp_path: Path) -> None:
        app = make_repository(tmp_path / "app")
        (app.folder / "shared").write_text('[remote "origin"]\nurl = https://example.org/a/b\n')
        app.git("config", "include.path", "../shared")
        located = GitRepositories(tmp_path / "data").locate(str(app.folder), {})
        assert located is not None
        assert located.origin == "example.org/a/b"

    @pytest.mark.parametrize("name", [".git", ".git/config", ".git/HEAD", ".git/commondir"])
    def test_two_gibibytes_are_not_read(self, tmp_path: Path, name: str) -> None:
        folder = tmp_path / "app"
        if name == ".git":
            folder.mkdir()
        else:
            make_repository(folder)
        with (folder / name).open("ab") as file:
            file.truncate(2 << 30)
        with pytest.raises(GitFailed, match="is longer than"):
            GitRepositories(tmp_path / "data").locate(str(folder), {})
