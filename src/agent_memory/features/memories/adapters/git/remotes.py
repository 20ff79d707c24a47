"""Fetch and push notes with the user's own `git` and credentials."""

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
from agent_memory.kernel.text.addresses import hide_credentials

SECONDS = 120.0
MAX_ERROR_CHARS = 500  # of git's messages
MAX_UNUSED_CHARS = 1000

_AUTHORITY = re.compile(r"[^/:]*://(?P<user>[^/]*)@")
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
        "access denied: check the key or credential helper with git fetch in a terminal",
    ),
    (
        re.compile(
            r"Could not resolve|Connection (?:refused|timed out|reset|closed)|No route to host"
            r"|Network is unreachable|Failed to connect|Operation timed out|Couldn't connect",
            re.IGNORECASE,
        ),
        "unreachable: check the network and the address",
    ),
    (
        re.compile(
            r"not appear to be a git repository|repository .* not found|Repository not found"
            r"|does not exist|not a git repository|HTTP 404|error: 404",
            re.IGNORECASE,
        ),
        "no repository at its address, or no access to it",
    ),
)


log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteAddress:
    """The address that git gets. `repository` is its path, if it is on this machine."""

    text: str
    repository: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRemote:
    """A remote of a repository. `tracking` is the prefix for copies of its notes, `secrets` must
    not appear in messages, `ignored` are settings of the repository that are not used."""

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
    """Access to remotes. `scratch` is our folder for git's working files."""

    scratch: Path
    seconds: float = SECONDS
    closed: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """Stop running git processes."""
        self.closed.set()

    def resolve(self, repository: pygit2.Repository, remote: str, umask: int) -> ResolvedRemote:
        if not remote or remote.startswith("-"):
            raise InvalidInput(f"{remote!r} is not the name or address of a remote")
        home = opening.common_folder(repository)
        configured = addresses.read_config(repository)
        known = configured.remotes
        if remote in known:
            urls = (known[remote].url, known[remote].push_url)
        elif has_remote(configured, remote):
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
                for address in dict.fromkeys((url, configured.resolve(url)))
                for secret in _find_secrets(address)
            ),
            ignored=tuple(_redact(name, ()) for name in configured.list_ignored(remote)),
            umask=umask,
        )

    def fetch(self, place: ResolvedRemote, environ: Mapping[str, str]) -> None:
        """Fetch the remote's notes into our copies of them."""
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
            "--no-filter",  # a partial clone must have the notes too
            "--refmap=",  # ignore the user's own refspecs
            "--prune",
            "--no-prune-tags",
            refspecs=[f"+{refs.PREFIX}*:{place.tracking}*"],
        )
        if ended.code != 0:
            raise self._build_error(place, ended)

    def push(
        self, place: ResolvedRemote, commits: Mapping[str, str], environ: Mapping[str, str]
    ) -> list[str]:
        """Push these commits, by namespace. Return the namespaces that the remote now has; the
        others changed there meanwhile."""
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
        return [namespace for namespace in pushed if namespace in commits]

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
                # Git runs its server part there, with the hooks and config of that repository.
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
        errors = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:"))]
        words = _redact("; ".join((errors or lines)[-2:]), place.secrets)[:MAX_ERROR_CHARS]
        here = "\n".join(line for line in lines if not line.startswith("remote:"))
        if _OURS.search(here):
            return GitFailed(f"git cannot write in {place.home}: {words}")
        unused = _explain_ignored(place)
        for pattern, meaning in _REASONS:
            if pattern.search(ended.errors):
                return RemoteUnavailable(
                    f"the remote {place.name}: {meaning} (git: {words}){unused}"
                )
        reason = words or f"git ended with {ended.code}"
        return RemoteUnavailable(f"the remote {place.name} cannot be used: {reason}{unused}")


def _explain_ignored(place: ResolvedRemote) -> str:
    """Explain what to do about ignored settings of the repository."""
    if not place.ignored:
        return ""
    names = ", ".join(place.ignored)
    return (
        f"; not used, as anyone may have made the repository: {names} in {place.home / 'config'}."
        " Set what you need in your own git configuration (git config --global, or a file that it"
        f" includes with includeIf.gitdir:{place.home}.path), or GIT_SSH_COMMAND"
    )[:MAX_UNUSED_CHARS]


def _address(place: ResolvedRemote, url: str) -> RemoteAddress:
    """Check an address from the config of a repository, and resolve it."""
    resolved = place.configured.resolve(url)
    if not addresses.is_address(url) or not addresses.is_address(resolved):
        raise RemoteUnavailable(
            f"the remote {place.name} has an address that is not used:"
            f" {_redact(url, place.secrets)!r}; use https, ssh, http, git, or a path"
        )
    path = addresses.local_path(resolved, place.folder)
    return RemoteAddress(text=url, repository=None if path is None else _repository(place, path))


def _push_address(place: ResolvedRemote) -> RemoteAddress:
    """Check that memories are pushed to the repository from which they are fetched."""
    if not place.push_url:
        return _address(place, place.url)
    target, source = (
        origins.normalize_origin(place.configured.resolve(url), place.folder)
        for url in (place.push_url, place.url)
    )
    if target != source:
        raise RemoteUnavailable(
            f"the remote {place.name} has another repository as its pushurl,"
            f" {_redact(place.push_url, place.secrets)}: nothing is pushed there; add it as a"
            " separate remote and select it: memory config set memories.remote NAME"
        )
    return _address(place, place.push_url)


def _repository(place: ResolvedRemote, path: Path) -> Path:
    """Return the common folder of a local repository. Like git, find `x.git` for `x`."""
    for candidate in (path, path.with_name(path.name + ".git")):
        if candidate.is_dir():
            try:
                with opening.open_repository(str(candidate)) as repository:
                    return opening.common_folder(repository)
            except GitFailed as exc:
                raise RemoteUnavailable(f"the remote {place.name}: {exc}") from exc
    raise RemoteUnavailable(
        f"the remote {place.name}: there is no repository at its address,"
        f" {_redact(str(path), place.secrets)}"
    )


def has_remote(configured: addresses.GitConfig, remote: str) -> bool:
    """Tell whether a remote is configured by this name, or is an address."""
    return remote in configured.remotes or (
        addresses.is_address(remote) and not addresses.is_relative(remote)
    )


def _has_password(url: str) -> bool:
    match = _AUTHORITY.match(url)
    return "?" in url or (match is not None and ":" in match["user"])


def _folder(repository: pygit2.Repository, home: Path) -> Path:
    """Return the base of relative addresses."""
    if repository.is_bare or not Path(repository.workdir).is_dir():
        return home
    return Path(repository.workdir)


def _find_secrets(url: str) -> list[str]:
    """Return the parts of an address that messages must not hold: user and password together, the
    password alone, and the query; longest first."""
    match = _AUTHORITY.match(url)
    user = "" if match is None else match["user"]
    parts = [user, user.partition(":")[2], url.partition("?")[2] if "://" in url else ""]
    return sorted(filter(None, parts), key=len, reverse=True)


def _redact(text: str, secrets: tuple[str, ...]) -> str:
    text = hide_credentials(text)
    for part in secrets:
        if len(part) > 3 and part != "git":
            text = text.replace(part, "***")
    return text
