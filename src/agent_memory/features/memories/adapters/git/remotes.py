"""Remotes: fetching and pushing notes by the user's own `git`, with the user's credentials."""

import contextlib
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pygit2
import structlog

from agent_memory.features.memories.adapters.git import (
    addresses,
    isolation,
    opening,
    origins,
    programs,
    refs,
)
from agent_memory.features.memories.adapters.git.programs import GitResult
from agent_memory.kernel.errors import AgentMemoryError, GitFailed, InvalidInput, RemoteUnavailable

SECONDS = 120.0
MAX_SAID_CHARS = 500  # of what git said
MAX_UNUSED_CHARS = 1000

_USERINFO = re.compile(r"(?<=://)[^/\s'\"]*@")  # to the last one before the path
_AUTHORITY = re.compile(r"[^/:]*://(?P<user>[^/]*)@")
_QUERY = re.compile(r"(://[^\s'\"?]*)\?[^\s'\"]*")
_REJECTED = re.compile(
    r"non-fast-forward|fetch first|failed to update ref|stale info|cannot lock ref"
    r"|incorrect old value|reference already exists|failed to lock|atomic",
    re.IGNORECASE,
)
_OURS = re.compile(
    r"insufficient permission for adding an object|unable to create temporary file|unable to write"
    r"|No space left|Disk quota|Read-only file system|cannot lock ref|unable to update local ref"
    r"|not a git repository: |dubious ownership|bad config|unknown option|unable to append",
    re.IGNORECASE,
)
_REASONS = (
    (
        re.compile(
            r"Authentication failed|could not read (?:Username|Password)|terminal prompts disabled"
            r"|Permission denied|Host key verification failed|HTTP 40[13]|error: 40[13]",
            re.IGNORECASE,
        ),
        "it does not let us in: check the key or credential helper, with git fetch in a terminal",
    ),
    (
        re.compile(
            r"Could not resolve|Connection (?:refused|timed out|reset|closed)|No route to host"
            r"|Network is unreachable|Failed to connect|Operation timed out|Couldn't connect",
            re.IGNORECASE,
        ),
        "it cannot be reached: check the network and the address",
    ),
    (
        re.compile(
            r"not appear to be a git repository|repository .* not found|Repository not found"
            r"|does not exist|not a git repository|HTTP 404|error: 404",
            re.IGNORECASE,
        ),
        "there is no repository at its address, or none that you may see",
    ),
)


log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteAddress:
    """What git is given to reach a remote; `repository` is where it is on this machine, if it is
    here."""

    text: str
    repository: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRemote:
    """A remote as a repository knows it: `tracking` is where copies of its notes stand, `secrets`
    what no message may hold, `ignored` settings of the repository that we do not use."""

    home: Path
    name: str
    url: str
    push_url: str
    folder: Path
    configured: addresses.GitConfig
    tracking: str
    secrets: tuple[str, ...]
    ignored: tuple[str, ...]
    umask: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Remotes:
    """`scratch` is a folder of ours for what git works in."""

    scratch: Path
    seconds: float = SECONDS
    closed: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """End what runs."""
        self.closed.set()

    def resolve(self, repository: pygit2.Repository, remote: str, umask: int) -> ResolvedRemote:
        if not remote or remote.startswith("-"):
            raise InvalidInput(f"{remote!r} is no name or address of a remote")
        home = opening.common_folder(repository)
        configured = addresses.read_config(repository)
        known = configured.remotes
        if remote in known:
            urls = (known[remote].url, known[remote].push_url)
        elif addresses.is_address(remote) and not addresses.is_relative(remote):
            urls = (remote, "")
        else:
            names = ", ".join(sorted(known)) or "none; add one with git remote add origin ADDRESS"
            raise RemoteUnavailable(
                f"{home} has no remote {_redact(remote, ())!r}; its remotes: {names}"
            )
        return ResolvedRemote(
            home=home,
            name=_redact(remote, ()),
            url=urls[0],
            push_url=urls[1],
            folder=_folder(repository, home),
            configured=configured,
            tracking=refs.tracking_prefix(remote),
            secrets=tuple(
                secret
                for url in urls
                for each in dict.fromkeys((url, configured.resolve(url)))
                for secret in _secrets(each)
            ),
            ignored=tuple(_redact(name, ()) for name in configured.list_ignored(remote)),
            umask=umask,
        )

    def fetch(self, place: ResolvedRemote, environ: Mapping[str, str]) -> None:
        """Copy the remote's notes to where we keep copies of them."""
        ended = self._run(
            place,
            _address(place, place.url),
            environ,
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            "--no-filter",  # of a partial clone: what is read here must be here
            "--refmap=",  # the user's own refspecs are not ours to follow
            "--prune",
            "--no-prune-tags",
            refspecs=[f"+{refs.PREFIX}*:{place.tracking}*"],
        )
        if ended.code != 0:
            raise self._build_error(place, ended)

    def push(
        self, place: ResolvedRemote, commits: Mapping[str, str], environ: Mapping[str, str]
    ) -> list[str]:
        """The namespaces, of those with these commits, that the remote now has. The others changed
        there meanwhile."""
        ended = self._run(
            place,
            _push_address(place),
            environ,
            "push",
            "--quiet",
            "--porcelain",
            "--no-verify",
            "--no-follow-tags",
            "--recurse-submodules=no",
            refspecs=[f"{commit}:{refs.name_of(name)}" for name, commit in commits.items()],
        )
        pushed, rejected = [], []
        for line in ended.output.splitlines():
            flag, _, rest = line.partition("\t")
            refspec, _, summary = rest.partition("\t")
            name = refspec.rpartition(":")[2]
            if not name.startswith(refs.PREFIX):
                continue
            if flag != "!":
                pushed.append(name.removeprefix(refs.PREFIX))
            elif _REJECTED.search(summary):
                rejected.append(name)
            else:
                raise RemoteUnavailable(
                    f"the remote {place.name} refuses {name}: {_redact(summary, place.secrets)}"
                )
        if ended.code == 0:
            return list(commits)
        if not rejected:
            raise self._build_error(place, ended)
        return [each for each in pushed if each in commits]

    def _run(
        self,
        place: ResolvedRemote,
        address: RemoteAddress,
        environ: Mapping[str, str],
        *arguments: str,
        refspecs: Sequence[str],
    ) -> GitResult:
        if place.ignored:
            log.info("git.config_ignored", repository=str(place.home), settings=place.ignored)
        with contextlib.ExitStack() as stack:
            where = address.text
            if address.repository is not None:
                # Git runs its other half there, with the hooks and the config of that repository.
                where = str(
                    stack.enter_context(isolation.isolate(address.repository, self.scratch))
                )
            return programs.run_git(
                place.home,
                [*arguments, "--", where, *refspecs],
                environ,
                scratch=self.scratch,
                seconds=self.seconds,
                ended=self.closed.is_set,
                umask=place.umask,
                address="" if _has_password(address.text) else address.text,
            )

    def _build_error(self, place: ResolvedRemote, ended: GitResult) -> AgentMemoryError:
        if ended.code is None:
            return RemoteUnavailable(
                f"the remote {place.name} gave no answer in {self.seconds:g} s"
            )
        lines = [line.strip() for line in ended.errors.splitlines() if line.strip()]
        told = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:"))]
        words = _redact("; ".join((told or lines)[-2:]), place.secrets)[:MAX_SAID_CHARS]
        here = "\n".join(line for line in lines if not line.startswith("remote:"))
        if _OURS.search(here):
            return GitFailed(f"git cannot write in {place.home}: {words}")
        unused = _explain_ignored(place)
        for pattern, meaning in _REASONS:
            if pattern.search(ended.errors):
                return RemoteUnavailable(
                    f"the remote {place.name}: {meaning} (git: {words}){unused}"
                )
        said = words or f"git ended with {ended.code}"
        return RemoteUnavailable(f"the remote {place.name} cannot be used: {said}{unused}")


def _explain_ignored(place: ResolvedRemote) -> str:
    """What to do about settings of the repository by which the user reaches the remote."""
    if not place.ignored:
        return ""
    names = ", ".join(place.ignored)
    return (
        f"; not used, as a repository may come from anybody: {names} in {place.home / 'config'}."
        " Set what you need in your own git configuration (git config --global, or a file that it"
        f" includes with includeIf.gitdir:{place.home}.path), or GIT_SSH_COMMAND"
    )[:MAX_UNUSED_CHARS]


def _address(place: ResolvedRemote, url: str) -> RemoteAddress:
    """Check an address that stands in the config of a repository, and find what it leads to."""
    resolved = place.configured.resolve(url)
    if not addresses.is_address(url) or not addresses.is_address(resolved):
        raise RemoteUnavailable(
            f"the remote {place.name} has an address that is not used:"
            f" {_redact(url, place.secrets)!r}; use https, ssh, http, git, or a path"
        )
    path = addresses.local_path(resolved, place.folder)
    return RemoteAddress(text=url, repository=None if path is None else _repository(place, path))


def _push_address(place: ResolvedRemote) -> RemoteAddress:
    """Check that memories are pushed to where they are fetched from."""
    if not place.push_url:
        return _address(place, place.url)
    wanted, known = (
        origins.normalize_origin(place.configured.resolve(each), place.folder)
        for each in (place.push_url, place.url)
    )
    if wanted != known:
        raise RemoteUnavailable(
            f"the remote {place.name} has another repository as its pushurl,"
            f" {_redact(place.push_url, place.secrets)}: nothing is pushed there; add it as a"
            " remote of its own, and name it: memory config set memories.remote NAME"
        )
    return _address(place, place.push_url)


def _repository(place: ResolvedRemote, path: Path) -> Path:
    """Where a repository on this machine keeps its objects and refs. Git finds `x.git` for `x`."""
    for each in (path, path.with_name(path.name + ".git")):
        if each.is_dir():
            try:
                repository = opening.open_repository(str(each))
            except GitFailed as exc:
                raise RemoteUnavailable(f"the remote {place.name}: {exc}") from exc
            try:
                return opening.common_folder(repository)
            finally:
                repository.free()
    raise RemoteUnavailable(
        f"the remote {place.name}: there is no repository at its address,"
        f" {_redact(str(path), place.secrets)}"
    )


def _has_password(url: str) -> bool:
    found = _AUTHORITY.match(url)
    return "?" in url or (found is not None and ":" in found["user"])


def _folder(repository: pygit2.Repository, home: Path) -> Path:
    """What relative addresses refer to."""
    if repository.is_bare or not Path(repository.workdir).is_dir():
        return home
    return Path(repository.workdir)


def _secrets(url: str) -> list[str]:
    """What no message may hold of an address: user and password together, the password alone, and
    the query. The longest first."""
    found = _AUTHORITY.match(url)
    user = "" if found is None else found["user"]
    parts = [user, user.partition(":")[2], url.partition("?")[2] if "://" in url else ""]
    return sorted(filter(None, parts), key=len, reverse=True)


def _redact(text: str, secrets: tuple[str, ...]) -> str:
    text = _QUERY.sub(r"\1", _USERINFO.sub("", text))
    for each in secrets:
        if len(each) > 3 and each != "git":
            text = text.replace(each, "***")
    return text
