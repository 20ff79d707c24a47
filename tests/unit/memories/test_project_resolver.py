"""The project of a folder, with real repositories, and where memories are stored."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_memory.features.memories.adapters.git.repositories import GitRepositories
from agent_memory.features.memories.adapters.project_store import StoredProjects
from agent_memory.features.memories.model.memories import Home
from agent_memory.features.memories.model.projects import MemoryLocation, split_mark
from agent_memory.features.memories.services.project_resolver import OrgRepository, ProjectResolver
from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import ConfigError, GitFailed, InvalidInput, NotConfigured
from agent_memory.kernel.ids import USER, Domain
from agent_memory.platform.store.committer import CommittedStore
from tests import git_repositories
from tests.contract.stores import unexpected
from tests.git_repositories import Repository
from tests.memory_engine import MemoryEngine


class Machine:
    """One computer: a data folder, a store and a home folder."""

    def __init__(self, folder: Path, projects: StoredProjects, shared: OrgRepository) -> None:
        self.home = folder / "home"
        self.home.mkdir(exist_ok=True)
        self.data = folder / "data"
        self.workplaces = ProjectResolver(
            repositories=GitRepositories(self.data),
            projects=projects,
            shared=shared,
            secrets=PassThrough(),
        )

    def caller(self, folder: Path) -> Caller:
        return Caller(folder=str(folder), environ={"HOME": str(self.home)})

    def here(self, folder: Path) -> MemoryLocation:
        return self.workplaces.resolve_folder(self.caller(folder))

    def place(self, domain: str, folder: Path) -> MemoryLocation:
        return self.workplaces.resolve(domain, self.caller(folder))

    def create_repository(self, name: str, commits: int = 1) -> Repository:
        return git_repositories.make_repository(self.home / name, commits=commits)

    def written(self, place: MemoryLocation) -> None:
        """Mark a repository as having memories."""
        self.workplaces.repositories.open_notebook(place.home, place.domain)

    def private(self) -> set[str]:
        return {str(path.relative_to(self.data)) for path in self.data.rglob("*.git")}


@pytest.fixture
def projects() -> Iterator[StoredProjects]:
    store = CommittedStore(MemoryEngine(), unexpected)
    yield StoredProjects(store)
    store.close()


@pytest.fixture
def machine(tmp_path: Path, projects: StoredProjects) -> Machine:
    return Machine(tmp_path, projects, OrgRepository())


class TestProjects:
    def test_a_repository_is_named_after_its_folder(self, machine: Machine) -> None:
        created = machine.create_repository("shop")
        assert machine.here(created.folder) == MemoryLocation(
            domain=Domain("project:shop"), home=created.home, commit=created.head, branch="main"
        )

    def test_a_repository_is_named_after_its_origin(self, machine: Machine) -> None:
        created = machine.create_repository("working-copy")
        created.git("remote", "add", "origin", "git@example.org:team/shop.git")
        assert machine.here(created.folder).domain == "project:shop"

    def test_a_name_that_no_domain_can_have_is_changed(self, machine: Machine) -> None:
        domain = machine.here(machine.create_repository("my shop: (new)").folder).domain
        assert domain == "project:my-shop-new"

    def test_two_of_one_name_are_two_projects(self, machine: Machine) -> None:
        one, two, three = (machine.create_repository(f"{letter}/shop") for letter in "abc")
        domains = [machine.here(each.folder).domain for each in (one, two, three)]
        assert domains[0] == "project:shop"
        assert len(set(domains)) == 3
        assert all(each.startswith("project:shop") for each in domains)
        assert [machine.here(each.folder).domain for each in (one, two, three)] == domains

    def test_two_origins_of_one_name_are_two_projects(self, machine: Machine) -> None:
        one, two = machine.create_repository("a"), machine.create_repository("b")
        one.git("remote", "add", "origin", "https://example.org/one/shop.git")
        two.git("remote", "add", "origin", "https://example.org/two/shop.git")
        assert machine.here(one.folder).domain != machine.here(two.folder).domain

    def test_the_name_depends_on_the_origin_and_not_on_who_came_first(
        self, machine: Machine
    ) -> None:
        one, two = machine.create_repository("a/shop"), machine.create_repository("b/shop")
        two.git("remote", "add", "origin", "https://example.org/two/shop.git")
        machine.here(one.folder)
        again = machine.create_repository("c/shop")
        again.git("remote", "add", "origin", "https://example.org/two/shop.git")
        assert machine.here(two.folder).domain == machine.here(again.folder).domain

    def test_two_clones_of_one_origin_are_one_project(self, machine: Machine) -> None:
        source = machine.create_repository("source/shop")
        one = git_repositories.clone_repository(source, machine.home / "one")
        two = git_repositories.clone_repository(source, machine.home / "two")
        places = [machine.here(each.folder) for each in (one, two)]
        assert [each.domain for each in places] == ["project:shop"] * 2
        assert [each.home for each in places] == [one.home, two.home]
        assert machine.workplaces.list_homes(Domain("project:shop")) == [one.home, two.home]

    @pytest.mark.parametrize(
        "other",
        [
            "git@example.org:team/shop.git",
            "https://example.org/team/shop",
            "https://ada@example.org/team/shop.git/",
        ],
    )
    def test_an_origin_is_one_however_it_is_spelled(self, machine: Machine, other: str) -> None:
        one, two = machine.create_repository("one"), machine.create_repository("two")
        one.git("remote", "add", "origin", "ssh://git@example.org/team/shop.git")
        two.git("remote", "add", "origin", other)
        assert machine.here(one.folder).domain == machine.here(two.folder).domain

    def test_worktrees_and_subfolders_are_one_project(self, machine: Machine) -> None:
        created = machine.create_repository("shop")
        tree = machine.home / "tree"
        created.git("worktree", "add", "--quiet", "-b", "side", str(tree))
        side = Repository(tree, created.environ)
        head = side.commit("on the side")
        (created.folder / "src/deep").mkdir(parents=True)
        main = machine.here(created.folder)
        assert machine.here(created.folder / "src/deep") == main
        assert machine.here(tree) == MemoryLocation(
            domain=main.domain, home=main.home, commit=head, branch="side"
        )

    def test_a_repository_within_another_is_one_of_its_own(self, machine: Machine) -> None:
        outer = machine.create_repository("outer")
        inner = machine.create_repository("outer/inner")
        assert machine.here(outer.folder).domain == "project:outer"
        assert machine.here(inner.folder).domain == "project:inner"

    def test_a_folder_reached_by_a_link_is_the_same(self, machine: Machine) -> None:
        created = machine.create_repository("shop")
        link = machine.home / "link"
        link.symlink_to(created.folder)
        assert machine.here(link) == machine.here(created.folder)


class TestMoving:
    def test_a_moved_repository_keeps_its_project(self, machine: Machine) -> None:
        created = machine.create_repository("a/shop")
        before = machine.here(created.folder)
        created.folder.parent.rename(machine.home / "b")
        after = machine.here(machine.home / "b/shop")
        assert after.domain == before.domain
        assert after.home == str(machine.home / "b/shop/.git")
        assert machine.workplaces.find_home(after.domain) == after.home

    def test_also_one_that_began_without_a_commit(self, machine: Machine) -> None:
        created = machine.create_repository("a/shop", commits=0)
        before = machine.here(created.folder)
        machine.written(before)
        created.commit()
        machine.here(created.folder)
        created.folder.parent.rename(machine.home / "b")
        assert machine.here(machine.home / "b/shop").domain == before.domain

    def test_also_one_that_is_renamed_where_it_has_an_origin(self, machine: Machine) -> None:
        created = machine.create_repository("shop")
        created.git("remote", "add", "origin", "https://example.org/team/shop.git")
        before = machine.here(created.folder)
        created.folder.rename(machine.home / "store")
        assert machine.here(machine.home / "store").domain == before.domain

    def test_one_that_gets_an_origin_keeps_its_project(self, machine: Machine) -> None:
        created = machine.create_repository("shop")
        before = machine.here(created.folder)
        created.git("remote", "add", "origin", "https://example.org/team/store.git")
        assert machine.here(created.folder) == before
        clone = machine.create_repository("clone")
        clone.git("remote", "add", "origin", "https://example.org/team/store.git")
        assert machine.here(clone.folder).domain == before.domain

    def test_one_whose_remote_moves_keeps_its_project(self, machine: Machine) -> None:
        created = machine.create_repository("shop")
        created.git("remote", "add", "origin", "https://example.org/team/shop.git")
        before = machine.here(created.folder)
        created.git("remote", "set-url", "origin", "https://example.org/other/shop.git")
        after = machine.here(created.folder)
        assert after.domain == before.domain
        assert (before.repository, after.repository) == (
            "example.org/team/shop",
            "example.org/other/shop",
        )

    def test_another_repository_in_the_same_folder_is_another_project(
        self, machine: Machine
    ) -> None:
        created = machine.create_repository("shop")
        created.git("remote", "add", "origin", "https://example.org/client/shop.git")
        before = machine.here(created.folder)
        shutil.rmtree(created.folder)
        again = machine.create_repository("shop", commits=0)
        again.commit("begin the shop of the team")
        again.git("remote", "add", "origin", "https://example.org/team/shop.git")
        after = machine.here(again.folder)
        assert after.domain != before.domain
        assert after.repository == "example.org/team/shop"
        # Notes of the one are not written into the other.
        assert machine.workplaces.list_homes(before.domain) == []
        assert machine.workplaces.list_homes(after.domain) == [again.home]

    def test_of_two_clones_the_one_whose_remote_changes_leaves(self, machine: Machine) -> None:
        one, two = machine.create_repository("one"), machine.create_repository("two")
        for each in (one, two):
            each.git("remote", "add", "origin", "https://example.org/team/shop.git")
        before = [machine.here(each.folder).domain for each in (one, two)]
        two.git("remote", "set-url", "origin", "https://example.org/ada/shop.git")
        after = [machine.here(each.folder).domain for each in (two, one)]
        assert before == ["project:shop"] * 2
        assert after[1] == "project:shop" != after[0]

    def test_a_copy_of_one_that_is_still_there_is_another(self, machine: Machine) -> None:
        one = machine.create_repository("a/shop")
        before = machine.here(one.folder)
        two = machine.create_repository("b/shop")
        assert machine.here(two.folder).domain != before.domain
        assert machine.here(one.folder) == before

    def test_what_is_gone_has_no_home(self, machine: Machine) -> None:
        created = machine.create_repository("shop")
        place = machine.here(created.folder)
        created.folder.rename(machine.home / "elsewhere")
        assert machine.workplaces.find_home(place.domain) is None
        assert machine.workplaces.list_homes(place.domain) == []


class TestIdentity:
    def test_it_is_the_remote_or_else_the_folder(self, machine: Machine) -> None:
        created, plain = machine.create_repository("shop"), machine.home / "plain"
        (plain / "below").mkdir(parents=True)
        for folder in (created.folder, plain / "below", plain):
            identity = machine.here(folder).repository
            assert split_mark(identity) == (str(folder), False)
            assert machine.here(folder).repository == identity
        assert machine.here(machine.home / "gone").repository == ""
        created.git("remote", "add", "origin", "https://ada:pw@Example.org/team/shop.git")
        assert machine.here(created.folder).repository == "example.org/team/shop"

    def test_another_repository_in_the_same_folder_has_another(self, machine: Machine) -> None:
        created = machine.create_repository("w")
        first = machine.here(created.folder)
        aside = created.folder.rename(machine.home / "aside")
        again = machine.create_repository("w", commits=0)
        again.commit("begin another")
        second = machine.here(again.folder)
        assert second.domain != first.domain
        assert second.repository != first.repository
        assert split_mark(second.repository) == split_mark(first.repository)
        # Each one that comes back is what it was.
        again.folder.rename(machine.home / "other")
        aside.rename(created.folder)
        back = machine.here(created.folder)
        assert (back.domain, back.repository) == (first.domain, first.repository)

    def test_a_folder_that_was_copied_must_be_confirmed_again(self, machine: Machine) -> None:
        created = machine.create_repository("w")
        first = machine.here(created.folder)
        aside = created.folder.rename(machine.home / "aside")
        shutil.copytree(aside, created.folder)
        copied = machine.here(created.folder)
        assert copied.domain == first.domain
        assert copied.repository != first.repository

    def test_what_a_folder_was_before_does_not_come_back(self, machine: Machine) -> None:
        plain, aside, other = (machine.home / name for name in ("plain", "aside", "other"))
        plain.mkdir()
        seen = [machine.here(plain).repository]
        plain.rename(aside)
        plain.mkdir()
        seen.append(machine.here(plain).repository)
        plain.rename(other)
        aside.rename(plain)
        seen.append(machine.here(plain).repository)
        assert len(set(seen)) == 3
        assert machine.here(plain).repository == seen[-1]

    def test_a_remote_that_is_a_folder_has_its_mark(self, machine: Machine) -> None:
        source = machine.create_repository("source/shop")
        clone = git_repositories.clone_repository(source, machine.home / "clone")
        first = machine.here(clone.folder).repository
        assert split_mark(first) == (str(source.folder), False)
        source.folder.rename(machine.home / "aside")
        machine.create_repository("source/shop")
        assert machine.here(clone.folder).repository != first

    def test_what_is_guessed_has_none_and_not_the_name_of_another(self, machine: Machine) -> None:
        created = machine.create_repository("a/shop")
        here = machine.here(created.folder)
        elsewhere = machine.workplaces.guess(str(machine.home / "b/shop"))
        assert elsewhere.domain != here.domain
        assert elsewhere.domain.startswith("project:shop-")
        assert machine.workplaces.guess("/\ud800/shop").domain.startswith("project:shop-")
        shutil.rmtree(created.folder)
        gone = machine.workplaces.guess(str(created.folder / "src"))
        assert gone.domain == here.domain
        assert (gone.repository, elsewhere.repository) == ("", "")


class TestWithoutGit:
    def test_a_folder_is_a_project_with_a_repository_of_ours(self, machine: Machine) -> None:
        folder = machine.home / "notes"
        (folder / "below").mkdir(parents=True)
        place = machine.here(folder)
        assert (place.domain, place.commit) == ("project:notes", "")
        assert Path(place.home).is_relative_to(machine.data)
        assert machine.here(folder / "below") == place
        assert machine.here(folder) == place
        assert list(folder.iterdir()) == [folder / "below"]

    def test_two_folders_of_one_name_are_two_projects(self, machine: Machine) -> None:
        folders = [machine.home / each / "notes" for each in ("a", "b")]
        for folder in folders:
            folder.mkdir(parents=True)
        one, two = (machine.here(folder) for folder in folders)
        assert one.domain != two.domain
        assert one.home != two.home

    def test_a_home_folder_does_not_take_in_what_is_below_it(self, machine: Machine) -> None:
        folder = machine.home / "notes"
        folder.mkdir()
        assert machine.here(machine.home).domain == "project:home"
        assert machine.here(folder).domain == "project:notes"

    def test_a_folder_that_becomes_a_repository_keeps_its_project(self, machine: Machine) -> None:
        folder = machine.home / "notes"
        folder.mkdir()
        before = machine.here(folder)
        machine.written(before)
        created = Repository(folder, git_repositories.build_environ(machine.home))
        created.git("init", "--quiet")
        assert machine.here(folder).domain == before.domain
        created.commit()
        after = machine.here(folder)
        assert (after.domain, after.home, after.commit) == (
            before.domain,
            created.home,
            created.head,
        )
        assert set(machine.workplaces.list_homes(before.domain)) >= {before.home, created.home}

    def test_before_the_first_commit_memories_wait_with_us(self, machine: Machine) -> None:
        created = machine.create_repository("shop", commits=0)
        place = machine.here(created.folder)
        assert (place.domain, place.commit) == ("project:shop", "")
        assert Path(place.home).is_relative_to(machine.data)
        machine.written(place)
        head = created.commit()
        after = machine.here(created.folder)
        assert (after.domain, after.home, after.commit) == (place.domain, created.home, head)
        assert set(machine.workplaces.list_homes(place.domain)) == {place.home, created.home}
        assert machine.workplaces.find_home(place.domain) == created.home

    def test_no_repository_is_made_that_nobody_writes_to(self, machine: Machine) -> None:
        machine.here(machine.create_repository("shop").folder)
        assert machine.private() == set()
        folder = machine.home / "a/b/c"
        folder.mkdir(parents=True)
        machine.here(folder)
        assert len(machine.private()) <= 1


class TestOtherDomains:
    def test_the_users_own_is_with_us(self, machine: Machine) -> None:
        place = machine.place("user", machine.home)
        assert place == MemoryLocation(domain=USER, home=Home(str(machine.data / "user.git")))
        assert machine.workplaces.find_home(USER) == place.home
        assert machine.workplaces.list_homes(USER) == [place.home]

    def test_a_project_by_its_name(self, machine: Machine) -> None:
        one, two = machine.create_repository("one"), machine.create_repository("two")
        here = machine.here(one.folder)
        assert machine.place("project", one.folder) == here
        assert machine.place("project:one", one.folder) == here
        assert machine.place("project:one", two.folder).home == one.home

    @pytest.mark.parametrize("domain", ["", "projects", "all", "project:", "project:../x", "x:y"])
    def test_a_domain_that_is_none(self, machine: Machine, domain: str) -> None:
        with pytest.raises(InvalidInput):
            machine.place(domain, machine.create_repository("one").folder)

    def test_a_project_that_is_not_there_is_refused_with_those_that_are(
        self, machine: Machine
    ) -> None:
        machine.here(machine.create_repository("one").folder)
        with pytest.raises(InvalidInput, match=r"no project 'three'.*one"):
            machine.place("project:three", machine.home)

    def test_an_organisation_must_be_configured(self, machine: Machine) -> None:
        for domain in ("org", "org:acme"):
            with pytest.raises(NotConfigured, match=r"memories\.org"):
                machine.place(domain, machine.home)
        assert machine.workplaces.find_home(Domain("org:acme")) is None

    def test_an_organisation_with_a_repository_here(
        self, tmp_path: Path, projects: StoredProjects
    ) -> None:
        created = git_repositories.make_repository(tmp_path / "shared")
        machine = Machine(
            tmp_path, projects, OrgRepository(org="acme", repository=str(created.folder))
        )
        place = machine.place("org", machine.home)
        assert (place.domain, place.home) == ("org:acme", created.home)
        assert machine.place("org:acme", machine.home) == place
        assert machine.workplaces.find_home(place.domain) == created.home
        assert machine.workplaces.remote_of_org() == ""
        with pytest.raises(InvalidInput, match="'acme', not 'other'"):
            machine.place("org:other", machine.home)

    def test_an_organisation_with_a_remote(self, tmp_path: Path, projects: StoredProjects) -> None:
        address = "https://example.org/acme/memories.git"
        machine = Machine(tmp_path, projects, OrgRepository(org="acme", repository=address))
        place = machine.place("org", machine.home)
        assert place.domain == "org:acme"
        assert Path(place.home).is_relative_to(machine.data)
        assert machine.workplaces.remote_of_org() == address

    def test_an_organisation_whose_repository_is_gone(
        self, tmp_path: Path, projects: StoredProjects
    ) -> None:
        shared = OrgRepository(org="acme", repository=str(tmp_path / "nowhere"))
        machine = Machine(tmp_path, projects, shared)
        with pytest.raises((ConfigError, GitFailed), match="nowhere"):
            machine.place("org", machine.home)


class TestWithoutAFolder:
    """Callers over a network have no folder."""

    NOWHERE = Caller(folder="", environ={})

    def test_a_project_is_meant_by_its_name_with_what_is_checked_out_there(
        self, machine: Machine
    ) -> None:
        one = machine.create_repository("one")
        here = machine.here(one.folder)
        assert machine.workplaces.resolve("project:one", self.NOWHERE) == here
        assert machine.workplaces.resolve_domain("project:one", self.NOWHERE) == "project:one"

    def test_one_that_is_kept_by_us(self, machine: Machine) -> None:
        folder = machine.home / "plain"
        folder.mkdir()
        here = machine.here(folder)
        machine.written(here)
        assert machine.workplaces.resolve(here.domain, self.NOWHERE) == here

    def test_the_present_project_is_asked_for_by_name(self, machine: Machine) -> None:
        machine.here(machine.create_repository("one").folder)
        for ask in (machine.workplaces.resolve, machine.workplaces.resolve_domain):
            with pytest.raises(InvalidInput, match=r"project:my-app.*known projects: one"):
                ask("project", self.NOWHERE)

    def test_all_are_those_on_this_machine(self, machine: Machine) -> None:
        one, two = machine.create_repository("one"), machine.create_repository("two")
        for created in (one, two):
            machine.here(created.folder)
        found = machine.workplaces.list_locations(self.NOWHERE)
        assert [place.domain for place in found] == ["project:one", "project:two", "user"]
        found = machine.workplaces.list_locations(machine.caller(two.folder))
        assert [place.domain for place in found] == ["project:two", "user"]


class TestEnvironment:
    def test_a_git_folder_that_the_caller_names_counts(self, machine: Machine) -> None:
        created = machine.create_repository("shop")
        elsewhere = machine.home / "elsewhere"
        elsewhere.mkdir()
        caller = Caller(
            folder=str(elsewhere),
            environ={"HOME": str(machine.home), "GIT_DIR": str(created.folder / ".git")},
        )
        assert machine.workplaces.resolve_folder(caller).domain == "project:shop"

    def test_a_folder_that_is_gone_is_a_folder_without_git(self, machine: Machine) -> None:
        place = machine.here(machine.home / "gone")
        assert place.domain == "project:gone"

    @pytest.mark.skipif(os.sep != "/", reason="paths are bytes only here")
    def test_a_folder_whose_name_is_no_text(self, machine: Machine) -> None:
        folder = Path(os.fsdecode(os.fsencode(machine.home) + b"/caf\xe9"))
        created = git_repositories.make_repository(folder)
        place = machine.here(folder)
        assert place.domain == "project:caf"
        assert place.commit == created.head


def test_a_folder_whose_name_holds_a_secret_is_no_project(
    tmp_path: Path, projects: StoredProjects
) -> None:
    secret = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX3yZ5"
    machine = Machine(tmp_path, projects, OrgRepository())
    careful = replace(machine.workplaces, secrets=Re2Filter(mode="redact"))
    caller = machine.caller(machine.create_repository(secret).folder)
    with pytest.raises(InvalidInput, match="holds a secret"):
        careful.resolve_folder(caller)
    assert projects.list_all() == []
    assert careful.resolve_or_guess(caller).home == ""
