"""Normalize the address of a remote, so that two ways to one repository are equal."""

import re
from pathlib import Path
from urllib.parse import unquote

_DEFAULT_PORTS = {"ssh": "22", "https": "443", "http": "80", "git": "9418"}
_URL = re.compile(
    r"(?:[A-Za-z0-9]+::)?(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL
)
_AUTHORITY = re.compile(r"(?:.*@)?(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>.*))?", re.DOTALL)
_SCP = re.compile(r"(?:[^/]*@)?(?P<host>\[[^\]/]*\]|[^:/@]+):(?P<path>.*)", re.DOTALL)


def normalize_origin(address: str, folder: Path) -> str:
    """Return `host/path` of a remote, or the resolved local path, relative to `folder`."""
    if match := _URL.fullmatch(address):
        scheme = match["scheme"].lower().removeprefix("git+").removesuffix("+git")
        if scheme == "file":
            return _local(Path(unquote("/" + match["rest"].partition("/")[2])))
        authority, _, path = match["rest"].partition("/")
        at = _AUTHORITY.fullmatch(authority)
        host, port = (at["host"], at["port"]) if at else ("", None)
        return _remote(host, port, _DEFAULT_PORTS.get(scheme), path)
    if match := _SCP.fullmatch(address):
        return _remote(match["host"], None, None, match["path"])
    return _local(folder / address)


def _remote(host: str, port: str | None, default: str | None, path: str) -> str:
    path = unquote(re.split(r"[?#]", path, maxsplit=1)[0])
    path = re.sub(r"/+", "/", path).strip("/").removesuffix(".git").strip("/")
    where = host.lower().rstrip(".")
    if port and port != default and port.isdecimal():
        where += f":{port}"
    return f"{where}/{path}"


def _local(path: Path) -> str:
    """Resolve the path. Like git, find `x.git` for `x`."""
    actual = path if path.exists() else path.with_name(path.name + ".git")
    return str((actual if actual.exists() else path).resolve())
