"""The Repositories port: folders, clones, worktrees, submodules and our own repositories."""

import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pygit2
import pytest
from pygit2.enums import ConfigLevel

from agent_memory.features.memories.adapters.git import origins
from agent_memory.features.memories.adapters.git.repositories import GitRepositories
from agent_memory.features.memories.model.memories import Home
from agent_memory.features.memories.model.projects import CloneInfo, RepositoryInfo
from agent_memory.features.memories.ports import Repositories
from agent_memory.kernel.errors import GitFailed, InvalidInput
from agent_memory.kernel.ids import USER
from tests.git_repositories import (
    Repository,
    build_environ,
    clone_repository,
    make_repository,
    memory,
)


@pytest.fixture
def repositories(tmp_path: Path) -> Repositories:
    return GitRepositories(tmp_path / "data")


@pytest.fixture
def users_config(tmp_path: Path) -> Iterator[Path]:
    """Return where the user's own git configuration is read from."""
    before = pygit2.settings.search_path[ConfigLevel.GLOBAL]
    folder = tmp_path / "users-home"
    folder.mkdir()
    pygit2.settings.search_path[ConfigLevel.GLOBAL] = str(folder)
    yield folder / ".gitconfig"
    pygit2.settings.search_path[ConfigLevel.GLOBAL] = before


def located(repositories: Repositories, folder: Path, **environ: str) -> RepositoryInfo:
    found = repositories.locate(str(folder), environ)
    assert found is not None
    return found


class TestLocating:
    def test_a_folder_of_a_repository(self, repositories: Repositories, tmp_path: Path) -> None:
        app = make_repository(tmp_path / "app")
        inner = app.folder / "src" / "deep"
        inner.mkdir(parents=True)
        expected = RepositoryInfo(
            home=Home(str(app.folder / ".git")),
            name="app",
            origin="",
            commit=app.head,
            branch="main",
        )
        assert located(repositories, app.folder) == expected
        assert located(repositories, inner) == expected
        assert located(repositories, app.folder / ".git") == expected
        assert repositories.exists(expected.home)

    def test_who_commits_there(self, repositories: Repositories, tmp_path: Path) -> None:
        app = make_repository(tmp_path / "app")
        app.git("config", "user.name", "Ann  Example")
        app.git("config", "user.email", "ann@example.org")
        assert located(repositories, app.folder).author == "Ann Example <ann@example.org>"
        environ = {"GIT_AUTHOR_NAME": "Ben\x07", "GIT_AUTHOR_EMAIL": "ben@example.org"}
        assert located(repositories, app.folder, **environ).author == "Ben <ben@example.org>"
        assert repositories.read_author(environ) == "Ben <ben@example.org>"
        assert len(repositories.read_author({"GIT_AUTHOR_NAME": "x" * 999})) == 200

    def test_no_repository(self, repositories: Repositories, tmp_path: Path) -> None:
        assert repositories.locate(str(tmp_path), {}) is None
        assert repositories.locate(str(tmp_path / "nowhere"), {}) is None
        assert not repositories.exists(Home(str(tmp_path)))
        with pytest.raises(GitFailed, match="no repository"):
            repositories.open_notebook(Home(str(tmp_path)), USER)

    def test_before_the_first_commit(self, repositories: Repositories, tmp_path: Path) -> None:
        app = make_repository(tmp_path / "app", commits=0)
        found = located(repositories, app.folder)
        assert (found.commit, found.branch) == ("", "main")

    def test_a_detached_head_is_on_no_branch(
        self, repositories: Repositories, tmp_path: Path
    ) -> None:
        app = make_repository(tmp_path / "app", commits=2)
        app.git("checkout", "--quiet", "--detach", "HEAD~1")
        found = located(repositories, app.folder)
        assert (found.commit, found.branch) == (app.head, "")

    def test_worktrees_are_one_repository_at_their_own_commits(
        self, repositories: Repositories, tmp_path: Path
    ) -> None:
        app = make_repository(tmp_path / "app")
        app.git("worktree", "add", "--quiet", "-b", "feature/x", str(tmp_path / "linked"))
        linked = Repository(tmp_path / "linked", app.environ)
        linked.commit()
        main, other = located(repositories, app.folder), located(repositories, linked.folder)
        assert (main.home, main.name) == (other.home, other.name)
        assert (other.commit, other.branch) == (linked.head, "feature/x")
        assert main.commit != other.commit

    def test_a_submodule_is_a_repository_of_its_own(
        self, repositories: Repositories, tmp_path: Path
    ) -> None:
        part, app = make_repository(tmp_path / "part"), make_repository(tmp_path / "app")
        app.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part.folder))
        inner = located(repositories, app.folder / "part")
        assert inner.home != located(repositories, app.folder).home
        assert (inner.name, inner.commit) == ("part", part.head)

    def test_where_the_files_of_a_clone_are(
        self, repositories: Repositories, tmp_path: Path
    ) -> None:
        part, app = make_repository(tmp_path / "part"), make_repository(tmp_path / "app")
        app.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part.folder))
        inner = located(repositories, app.folder / "part").home
        found = repositories.find_clone(inner, "origin")
        assert found == CloneInfo(folder=str(app.folder / "part"), has_remote=True)
        assert repositories.find_clone(inner, "backup") == replace(found, has_remote=False)
        assert repositories.find_clone(app.home, "origin") == CloneInfo(folder=str(app.folder))
        address = repositories.find_clone(app.home, "https://example.org/app.git")
        assert address == CloneInfo(folder=str(app.folder), has_remote=True)
        bare = clone_repository(part, tmp_path / "bare.git", "--bare")
        assert repositories.find_clone(bare.home, "backup") == CloneInfo()
        assert repositories.find_clone(repositories.get_private_home("user.git"), "origin") is None
        app.git("config", "core.worktree", str(part.folder))  # which is not its own
        assert repositories.find_clone(app.home, "origin") == CloneInfo()

    @pytest.mark.parametrize(
        ("folder", "name"), [("app.git", "app"), ("app", "app"), ("app/.bare", "app")]
    )
    def test_a_bare_repository(
        self, repositories: Repositories, tmp_path: Path, folder: str, name: str
    ) -> None:
        bare = clone_repository(make_repository(tmp_path / "source"), tmp_path / folder, "--bare")
        found = located(repositories, bare.folder)
        assert (found.home, found.name) == (Home(str(bare.folder)), name)
        assert found.commit == bare.head

    def test_a_bare_repository_that_came_with_a_clone_is_a_folder_of_it(
        self, repositories: Repositories, tmp_path: Path
    ) -> None:
        """As with `safe.bareRepository = explicit`: such a folder can be committed and
        cloned."""
        app = make_repository(tmp_path / "app")
        inner = clone_repository(
            make_repository(tmp_path / "source"), app.folder / "docs/example", "--bare"
        )
        deep = clone_repository(inner, inner.folder / "more/deeper.git", "--bare")
        for folder in (inner.folder, inner.folder / "objects", deep.folder):
            assert located(repositories, folder).home == app.home
        assert located(repositories, app.folder, GIT_DIR=str(inner.folder)).home == inner.home

    def test_git_dir_of_the_caller_comes_first(
        self, repositories: Repositories, tmp_path: Path
    ) -> None:
        app, other = make_repository(tmp_path / "app"), make_repository(tmp_path / "other")
        assert located(repositories, app.folder, GIT_DIR=str(other.folder / ".git")).name == "other"
        assert located(repositories, app.folder, GIT_DIR="../other/.git").name == "other"
        assert located(repositories, app.folder, GIT_DIR="/nowhere").name == "app"

    def test_links_lead_to_one_home(self, repositories: Repositories, tmp_path: Path) -> None:
        app = make_repository(tmp_path / "app")
        (tmp_path / "link").symlink_to(app.folder)
        assert located(repositories, tmp_path / "link").home == app.home

    def test_a_partial_clone(self, repositories: Repositories, tmp_path: Path) -> None:
        app = make_repository(tmp_path / "app")
        app.git("config", "uploadpack.allowFilter", "true")
        outside = Repository(tmp_path, build_environ(tmp_path))
        outside.git("clone", "--quiet", "--filter=blob:none", f"file://{app.folder}", "partial")
        assert located(repositories, tmp_path / "partial").commit == app.head


class TestBrokenRepositories:
    def test_a_head_that_leads_nowhere(self, repositories: Repositories, tmp_path: Path) -> None:
        app = make_repository(tmp_path / "app")
        (app.folder / ".git/refs/heads/main").write_text("f" * 40 + "\n")
        with pytest.raises(GitFailed, match="git fsck"):
            repositories.locate(str(app.folder), {})

    def test_a_worktree_without_its_repository_is_not_taken_for_another(
        self, repositories: Repositories, tmp_path: Path
    ) -> None:
        around, app = make_repository(tmp_path / "around"), make_repository(tmp_path / "app")
        linked = around.folder / "linked"
        app.git("worktree", "add", "--quiet", "--detach", str(linked))
        app.folder.rename(tmp_path / "moved")
        with pytest.raises(GitFailed, match="worktree repair"):
            repositories.locate(str(linked), {})

    def test_a_config_that_cannot_be_read(self, repositories: Repositories, tmp_path: Path) -> None:
        app = make_repository(tmp_path / "app")
        (app.folder / ".git/config").write_text("[core\n")
        with pytest.raises(GitFailed, match=str(app.folder)):
            repositories.locate(str(app.folder), {})

    def test_sha256_is_not_supported(self, repositories: Repositories, tmp_path: Path) -> None:
        Repository(tmp_path, build_environ(tmp_path)).git(
            "init", "--quiet", "--object-format=sha256", "app"
        )
        with pytest.raises(GitFailed, match="SHA-256"):
            repositories.locate(str(tmp_path / "app"), {})

    def test_an_unknown_extension_is_named(
        self, repositories: Repositories, tmp_path: Path
    ) -> None:
        app = make_repository(tmp_path / "app")
        app.git("config", "extensions.unheardOf", "true")
        app.git("config", "core.repositoryFormatVersion", "1")
        with pytest.raises(GitFailed, match="unheardof"):
            repositories.locate(str(app.folder), {})

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
    def test_someone_elses_repository_says_how_to_trust_it(
        self, repositories: Repositories, tmp_path: Path
    ) -> None:
        app = make_repository(tmp_path / "app")
        for path in (app.folder, *app.folder.rglob("*")):
            os.chown(path, 12345, 12345)
        with pytest.raises(GitFailed, match=r"safe\.directory") as caught:
            repositories.locate(str(app.folder), {})
        assert str(caught.value).endswith(str(app.folder))


class TestOrigins:
    @pytest.mark.parametrize(
        "address",
        [
            "git@github.com:acme/app.git",
            "github.com:acme/app",
            "github.com:acme/app.git/",
            "ssh://git@github.com/acme/app.git",
            "ssh://github.com:22/acme/app/",
            "git+ssh://git@GitHub.com/acme/app",
            "https://github.com/acme/app",
            "https://ada:t0ken@github.com:443/acme/app.git",
            "https://p@ss:w@rd@github.com/acme/app.git",
            "http://github.com:80/acme//app.git",
            "git://github.com:9418/acme/app.git",
            "HTTPS://GITHUB.COM./acme/app.git",
        ],
    )
    def test_one_repository_has_one_spelling(self, tmp_path: Path, address: str) -> None:
        assert origins.normalize_origin(address, tmp_path) == "github.com/acme/app"

    @pytest.mark.parametrize(
        ("address", "spelling"),
        [
            ("ssh://git@host:2222/a/b.git", "host:2222/a/b"),
            ("https://host:8443/a/b", "host:8443/a/b"),
            ("https://host/a/B", "host/a/B"),
            ("ssh://git@[::1]:22/a.git", "[::1]/a"),
            ("git@[::1]:a.git", "[::1]/a"),
            ("https://u:p@host:port/a", "host/a"),
            ("https://host/with%20blank", "host/with blank"),
            ("host:with blank", "host/with blank"),
            ("https://host/a%2fb", "host/a%2Fb"),
            ("https://host/a%252fb", "host/a%252fb"),
            ("host:a%2Fb", "host/a%252Fb"),
            ("git@nas:abs.git", "nas/abs"),
            ("git@nas:/abs.git", "nas//abs"),
            ("git@nas:~/abs.git", "nas/~/abs"),
            ("https://nas/~/abs.git", "nas/~/abs"),
            ("https://nas//abs.git", "nas/abs"),
            ("acme@nas:web.git", "acme@nas/web"),
            ("acme@nas:~/web.git", "acme@nas/web"),
            ("ssh://acme@nas/~/web.git", "acme@nas/web"),
            ("client@nas:web.git", "client@nas/web"),
            ("acme@nas:/srv/web.git", "nas//srv/web"),
            ("ssh://acme:pw@nas/srv/web.git", "nas//srv/web"),
            ("ssh://git@nas/~acme/web.git", "nas/~acme/web"),
        ],
    )
    def test_what_differs_stays_different(
        self, tmp_path: Path, address: str, spelling: str
    ) -> None:
        assert origins.normalize_origin(address, tmp_path) == spelling

    def test_what_an_address_asks_for_makes_another_but_is_not_shown(self, tmp_path: Path) -> None:
        found = {
            origins.normalize_origin(f"https://host/cgi{asked}", tmp_path)
            for asked in ("", "?p=acme", "?p=client", "#p=acme")
        }
        assert len(found) == 4
        assert not any("acme" in each or "client" in each for each in found)

    def test_bytes_that_are_no_text_stay_different(self, tmp_path: Path) -> None:
        addresses = (f"https://host/%{byte}" for byte in ("FE", "FF"))
        assert len({origins.normalize_origin(each, tmp_path) for each in addresses}) == 2

    def test_a_local_remote_is_its_path(self, repositories: Repositories, tmp_path: Path) -> None:
        bare = clone_repository(
            make_repository(tmp_path / "source"), tmp_path / "app.git", "--bare"
        )
        clone = clone_repository(bare, tmp_path / "clone")
        for address in (
            str(bare.folder),
            f"{bare.folder}/",
            "../app.git",
            "../app",
            f"file://{bare.folder}",
            f"file://localhost{bare.folder}",
        ):
            clone.git("remote", "set-url", "origin", address)
            assert located(repositories, clone.folder).origin == str(bare.folder)

    def test_the_users_short_forms_are_resolved_and_not_those_of_the_repository(
        self, repositories: Repositories, tmp_path: Path, users_config: Path
    ) -> None:
        app = make_repository(tmp_path / "app")
        app.git("remote", "add", "upstream", "https://example.org/not/this")
        assert located(repositories, app.folder).origin == ""
        app.git("remote", "add", "origin", "gh:acme/app.git")
        app.git("config", "url.https://elsewhere.example/.insteadOf", "gh:")
        assert located(repositories, app.folder).origin == "gh/acme/app"
        users_config.write_text('[url "https://ada:t0ken@github.com/"]\ninsteadOf = gh:\n')
        assert located(repositories, app.folder).origin == "github.com/acme/app"

    def test_worktrees_see_a_relative_origin_from_the_main_one(
        self, repositories: Repositories, tmp_path: Path
    ) -> None:
        bare = clone_repository(
            make_repository(tmp_path / "source"), tmp_path / "app.git", "--bare"
        )
        clone = clone_repository(bare, tmp_path / "clone")
        clone.git("remote", "set-url", "origin", "../app.git")
        clone.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "deep/er/linked"))
        assert located(repositories, tmp_path / "deep/er/linked").origin == str(bare.folder)


class TestPrivateRepositories:
    @pytest.mark.parametrize("name", ["user.git", "org/acme.git", "projects/0123abcd.git"])
    def test_it_is_made_at_first_use_for_its_owner_only(
        self, repositories: Repositories, tmp_path: Path, name: str
    ) -> None:
        home = repositories.get_private_home(name)
        assert home == str(tmp_path / "data" / name)
        assert not repositories.exists(home)
        notebook = repositories.open_notebook(home, USER)
        assert stat.S_IMODE(Path(home).stat().st_mode) == 0o700
        assert repositories.exists(home)
        assert repositories.get_private_home(name) == home
        notebook.write([memory("x", domain=USER)])
        assert len(notebook.read().memories) == 1
        bare = Repository(Path(home), build_environ(tmp_path))
        assert bare.git("rev-parse", "--is-bare-repository", "--abbrev-ref", "HEAD") == "true\nmain"
        assert bare.succeeds("fsck", "--strict")

    def test_all_of_them_annotate_the_same_commit(
        self, repositories: Repositories, tmp_path: Path
    ) -> None:
        homes = []
        for each in (repositories, GitRepositories(tmp_path / "other machine")):
            homes.append(each.get_private_home("user.git"))
            each.open_notebook(homes[-1], USER)
        heads = {Repository(Path(home), build_environ(tmp_path)).head for home in homes}
        assert len(heads) == 1

    def test_one_that_was_made_only_half_is_finished(
        self, repositories: Repositories, tmp_path: Path
    ) -> None:
        make_repository(tmp_path / "data" / "user.git", bare=True)
        home = repositories.get_private_home("user.git")
        repositories.open_notebook(home, USER)
        assert Repository(Path(home), build_environ(tmp_path)).head

    def test_many_at_once_make_one(self, tmp_path: Path) -> None:
        repositories = GitRepositories(tmp_path / "data")
        home = repositories.get_private_home("user.git")
        heads: list[str] = []

        def make() -> None:
            repositories.open_notebook(home, USER)
            heads.append(Repository(Path(home), build_environ(tmp_path)).head)

        threads = [threading.Thread(target=make) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(heads) == 8
        assert len(set(heads)) == 1

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "user",
            "../user.git",
            "/user.git",
            "a/../b.git",
            "..git",
            "a/b/c.git",
            ".git",
            "a\n.git",
        ],
    )
    def test_no_name_leads_elsewhere(self, repositories: Repositories, name: str) -> None:
        with pytest.raises(InvalidInput, match="not a valid name"):
            repositories.get_private_home(name)

    def test_a_folder_that_cannot_be_written_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        repositories = GitRepositories(tmp_path / "file")
        with pytest.raises(GitFailed, match="cannot be created"):
            repositories.open_notebook(repositories.get_private_home("user.git"), USER)
