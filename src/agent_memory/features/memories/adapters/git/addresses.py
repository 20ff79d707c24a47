"""Addresses of remotes: which ones git may use, and what the git configuration says about them.

Only git's built-in transports are used, and a path is a repository on this machine. A remote helper
(`ext::sh -c ...`) would be a program that the address chooses.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pygit2
from pygit2.enums import ConfigLevel

from agent_memory.features.memories.adapters.git import origins

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HELPER = re.compile(r"[A-Za-z0-9+.-]*::", re.ASCII)
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z0-9+.-]+)://(?P<rest>.*)", re.ASCII | re.DOTALL)
_SCP = re.compile(r"(?P<host>[^/:]+):(?P<path>.*)", re.DOTALL)
_OVER_A_NETWORK = frozenset({"ssh", "git", "http", "https", "git+ssh", "ssh+git"})
_FILE = "file"
# Settings in a repository's own config that say how to reach a remote. This list only serves
# messages: nothing of that file is used, whether it is listed here or not.
_REACHING = re.compile(
    r"core\.(?:sshcommand|gitproxy|askpass)|ssh\.variant|(?:credential|http|https|protocol|url)\..*"
    r"|remote\.(?P<remote>.*)\.(?:proxy|proxyauthmethod|uploadpack|receivepack|vcs|serveroption)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteUrls:
    """The addresses of a remote, from the git configuration."""

    url: str = ""
    push_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitConfig:
    """What we take from the git configuration. `rewrites` are pairs of the user's short form and
    what it stands for; `ignored` names the repository's own settings for reaching remotes."""

    remotes: Mapping[str, RemoteUrls] = field(default_factory=dict)
    rewrites: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()

    def resolve(self, address: str) -> str:
        """Expand the address by the user's `url.*.insteadOf`, as git does."""
        fitting = [rewrite for rewrite in self.rewrites if address.startswith(rewrite[0])]
        if not fitting:
            return address
        short, base = max(fitting, key=lambda rewrite: len(rewrite[0]))
        return base + address.removeprefix(short)

    def origin(self, folder: Path) -> str:
        """Return the normalized address of `origin`."""
        known = self.remotes.get("origin", RemoteUrls())
        return origins.normalize_origin(self.resolve(known.url), folder) if known.url else ""

    def list_ignored(self, remote: str) -> list[str]:
        """List the ignored settings that may matter for this remote."""
        return [
            name
            for name in self.ignored
            if (match := _REACHING.fullmatch(name)) and match["remote"] in (None, remote)
        ]


def read_config(repository: pygit2.Repository) -> GitConfig:
    """Read the configuration with libgit2, which runs no program, whatever the file says."""
    urls: dict[tuple[str, str], list[tuple[bool, str]]] = {}
    rewrites: list[tuple[str, str]] = []
    ignored: dict[str, None] = {}
    for entry in repository.config:
        name = entry.raw_name.decode("utf-8", "surrogateescape")
        value = (entry.raw_value or b"").decode("utf-8", "surrogateescape")
        own = entry.level >= ConfigLevel.LOCAL
        section, _, rest = name.partition(".")
        subsection, _, key = rest.rpartition(".")
        if section == "remote" and subsection and value and key in ("url", "pushurl"):
            urls.setdefault((subsection, key), []).append((own, value))
        elif section == "url" and key == "insteadof" and value and not own:
            rewrites.append((value, subsection))
        elif own and _REACHING.fullmatch(name):
            ignored[name] = None
    remotes = {
        name: RemoteUrls(
            url=_first(urls[name, "url"]), push_url=_first(urls.get((name, "pushurl"), []))
        )
        for (name, key), values in urls.items()
        if key == "url"
    }
    return GitConfig(remotes=remotes, rewrites=tuple(rewrites), ignored=tuple(ignored))


def _first(values: list[tuple[bool, str]]) -> str:
    """Return the first value, as git does; the repository's own come before the user's."""
    return next((value for own, value in values if own), values[0][1] if values else "")


def is_address(text: str) -> bool:
    """Return whether the text may be used as an address. A leading dash would make it an option of
    git, or of the program that git runs with it."""
    if _CONTROL.search(text) or text.startswith("-") or _HELPER.match(text):
        return False
    if match := _SCHEME.match(text):
        authority, _, path = match["rest"].partition("/")
        host = authority.rpartition("@")[2]
        if match["scheme"] == _FILE:
            return True
        return (
            match["scheme"] in _OVER_A_NETWORK
            and bool(host)
            and not authority.startswith("-")
            and not host.startswith("-")
            and not path.startswith("-")
        )
    if match := _SCP.match(text):
        host = match["host"].rpartition("@")[2]
        return (
            bool(host)
            and not host.startswith("-")
            and bool(match["path"])
            and not match["path"].startswith("-")
        )
    return bool(text)


def is_relative(address: str) -> bool:
    """Return whether it is a path relative to some folder."""
    return not (_SCHEME.match(address) or _SCP.match(address) or address.startswith("/"))


def local_path(address: str, folder: Path) -> Path | None:
    """Return the path that an address means, relative to `folder`; None for a network address."""
    if match := _SCHEME.match(address):
        if match["scheme"] != _FILE:
            return None
        return Path(unquote("/" + match["rest"].partition("/")[2]))
    if _SCP.match(address):
        return None
    return folder / address
