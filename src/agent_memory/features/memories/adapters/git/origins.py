"""Origins: the address of a remote, so spelled that two ways to one repository are equal."""

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
    """`host/path` of a remote, without who asks and how; a local path, relative to `folder`, as it
    is."""
    if found := _URL.fullmatch(address):
        scheme = found["scheme"].lower().removeprefix("git+").removesuffix("+git")
        if scheme == "file":
            return _local(Path(unquote("/" + found["rest"].partition("/")[2])))
        authority, _, path = found["rest"].partition("/")
        at = _AUTHORITY.fullmatch(authority)
        host, port = (at["host"], at["port"]) if at else ("", None)
        return _remote(host, port, _DEFAULT_PORTS.get(scheme), path)
    if found := _SCP.fullmatch(address):
        return _remote(found["host"], None, None, found["path"])
    return _local(folder / address)


def _remote(host: str, port: str | None, default: str | None, path: str) -> str:
    path = unquote(re.split(r"[?#]", path, maxsplit=1)[0])
    path = re.sub(r"/+", "/", path).strip("/").removesuffix(".git").strip("/")
    where = host.lower().rstrip(".")
    if port and port != default and port.isdecimal():
        where += f":{port}"
    return f"{where}/{path}"


def _local(path: Path) -> str:
    """Git finds `x.git` for `x`, and so do we."""
    found = path if path.exists() else path.with_name(path.name + ".git")
    return str((found if found.exists() else path).resolve())
