"""Normalize the address of a remote, so that common ways to one repository are equal. Two
repositories must never be: what may be another one keeps a difference."""

import hashlib
import re
from pathlib import Path
from urllib.parse import unquote

_DEFAULT_PORTS = {"ssh": "22", "https": "443", "http": "80", "git": "9418"}
_URL = re.compile(
    r"(?:[A-Za-z0-9]+::)?(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL
)
_SERVICE_USERS = ("", "git")  # hosts serve the same paths to them as over https
_AUTHORITY = re.compile(
    r"(?:(?P<user>[^:]*).*@)?(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>.*))?", re.DOTALL
)
_SCP = re.compile(
    r"(?:(?P<user>[^:/]*)[^/]*@)?(?P<host>\[[^\]/]*\]|[^:/@]+):(?P<path>.*)", re.DOTALL
)


def normalize_origin(address: str, folder: Path) -> str:
    """Return `host/path` of a remote, or the resolved local path, relative to `folder`."""
    if match := _URL.fullmatch(address):
        scheme = match["scheme"].lower().removeprefix("git+").removesuffix("+git")
        if scheme == "file":
            return _local(Path(unquote("/" + match["rest"].partition("/")[2])))
        authority, _, path = match["rest"].partition("/")
        at = _AUTHORITY.fullmatch(authority)
        host, port = (at["host"], at["port"]) if at else ("", None)
        start = min((path.index(mark) for mark in "?#" if mark in path), default=len(path))
        path, asked = _decode(path[:start].lstrip("/")), path[start:]
        user = (at["user"] or "") if at and scheme == "ssh" else ""
        where = _join_host(host, port, _DEFAULT_PORTS.get(scheme))
        if user not in _SERVICE_USERS:
            path = path if path.startswith("~") else f"/{path}"
        # What is asked for may hold a token, so only a hash of it is kept.
        return _join(where, user, path) + (asked and f"?{_digest(asked)}")
    if match := _SCP.fullmatch(address):
        # This form is not encoded, unlike an address.
        path = re.sub(r"[%?#]", lambda found: f"%{ord(found[0]):X}", match["path"])
        return _join(_join_host(match["host"], None, None), match["user"] or "", path)
    return _local(folder / address)


def _join_host(host: str, port: str | None, default: str | None) -> str:
    where = host.lower().rstrip(".")
    return f"{where}:{port}" if port and port != default and port.isdecimal() else where


def _join(where: str, user: str, path: str) -> str:
    """Join the parts. A path in a user's home follows `user@host`, and an absolute one `host/`,
    except where hosts make no difference: without a user or with `git`."""
    root = "/" if path.startswith("/") else ""
    home = "" if root or user in _SERVICE_USERS else f"{user}@"
    path = path.removeprefix("~/") if home else path
    path = re.sub(r"/+", "/", path).strip("/").removesuffix(".git").strip("/")
    return f"{home}{where}/{root}{path}"


def _decode(path: str) -> str:
    """Decode what means the same when decoded: not `/`, `?`, `#` and `%`. Bytes that are no text
    stay different."""
    kept = re.sub(r"%(2F|3F|23|25)", lambda found: f"%25{found[1].upper()}", path, flags=re.I)
    return unquote(kept, errors="surrogateescape")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _local(path: Path) -> str:
    """Resolve the path. Like git, find `x.git` for `x`."""
    actual = path if path.exists() else path.with_name(path.name + ".git")
    return str((actual if actual.exists() else path).resolve())
