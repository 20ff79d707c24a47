"""Addresses of remotes: which of them git is given, and what they say of the configuration.

Only the transports that git has built in are used, and a path is a repository on this machine. A
helper (`ext::sh -c ...`) would be a program that the address chooses.
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
# How a remote is reached, where a repository's own config may say so. It only names what a message
# mentions: nothing of that file is used, whether it stands here or not.
_REACHING = re.compile(
    r"core\.(?:sshcommand|gitproxy|askpass)|ssh\.variant|(?:credential|http|https|protocol|url)\..*"
    r"|remote\.(?P<remote>.*)\.(?:proxy|proxyauthmethod|uploadpack|receivepack|vcs|serveroption)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteUrls:
    """A remote of a repository, by the addresses that its config gives it."""

    url: str = ""
    push_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitConfig:
    """What we take from the configuration. `rewrites` are the user's short forms, by what they
    stand for; `ignored` names settings of the repository's own by which remotes would be reached.
    """

    remotes: Mapping[str, RemoteUrls] = field(default_factory=dict)
    rewrites: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()

    def resolve(self, address: str) -> str:
        """The address that git makes of it, by the user's `url.*.insteadOf`."""
        fitting = [each for each in self.rewrites if address.startswith(each[0])]
        if not fitting:
            return address
        short, base = max(fitting, key=lambda each: len(each[0]))
        return base + address.removeprefix(short)

    def origin(self, folder: Path) -> str:
        """The repository that `origin` means, equal for all ways that lead to it."""
        known = self.remotes.get("origin", RemoteUrls())
        return origins.normalize_origin(self.resolve(known.url), folder) if known.url else ""

    def list_ignored(self, remote: str) -> list[str]:
        """The ignored settings that may have mattered for this remote."""
        return [
            name
            for name in self.ignored
            if (match := _REACHING.fullmatch(name)) and match["remote"] in (None, remote)
        ]


def read_config(repository: pygit2.Repository) -> GitConfig:
    """Read what we need with a library that runs nothing, whatever it reads."""
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
    """The first counts, as it does for git; but the repository's own before the user's."""
    return next((value for own, value in values if own), values[0][1] if values else "")


def is_address(text: str) -> bool:
    """Whether it may be used as an address. What begins with a dash would be an option, of git or
    of the program that git runs with it."""
    if _CONTROL.search(text) or text.startswith("-") or _HELPER.match(text):
        return False
    if found := _SCHEME.match(text):
        authority, _, path = found["rest"].partition("/")
        host = authority.rpartition("@")[2]
        if found["scheme"] == _FILE:
            return True
        return (
            found["scheme"] in _OVER_A_NETWORK
            and bool(host)
            and not authority.startswith("-")
            and not host.startswith("-")
            and not path.startswith("-")
        )
    if found := _SCP.match(text):
        host = found["host"].rpartition("@")[2]
        return (
            bool(host)
            and not host.startswith("-")
            and bool(found["path"])
            and not found["path"].startswith("-")
        )
    return bool(text)


def is_relative(address: str) -> bool:
    """Whether it is a path that means nothing without a folder."""
    return not (_SCHEME.match(address) or _SCP.match(address) or address.startswith("/"))


def local_path(address: str, folder: Path) -> Path | None:
    """The path that an address means, seen from `folder`; None where it leads over a network."""
    if found := _SCHEME.match(address):
        if found["scheme"] != _FILE:
            return None
        return Path(unquote("/" + found["rest"].partition("/")[2]))
    if _SCP.match(address):
        return None
    return folder / address
