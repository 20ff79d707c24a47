"""Run the user's own `git`, without terminal, hooks or shell, within limits of time and output.

Every `git` process of ours starts here. It works on the objects and refs of a repository under the
configuration of the user, never under that of the repository (`isolation`).
"""

import contextlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_memory.features.memories.adapters.git import isolation
from agent_memory.kernel.errors import GitFailed

MAX_OUTPUT_BYTES = 1 << 20
GLANCE_SECONDS = 0.2

# Variables for reaching a remote: agents, keys, proxies, certificates and paths of settings.
_PASSED = frozenset({
    "ALL_PROXY", "CURL_CA_BUNDLE", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "GNUPGHOME", "HOME",
    "HTTPS_PROXY", "HTTP_PROXY", "KRB5CCNAME", "LOGNAME", "NO_PROXY", "PATH", "SSH_AGENT_PID",
    "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "SSH_AUTH_SOCK", "SSL_CERT_DIR", "SSL_CERT_FILE",
    "TMPDIR", "USER", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR", "all_proxy", "http_proxy", "https_proxy", "no_proxy",
})  # fmt: skip
# Variables that name another repository, or that log what is sent to a server.
_OTHERS = re.compile(
    r"GIT_(?:DIR|WORK_TREE|IMPLICIT_WORK_TREE|COMMON_DIR|INDEX_FILE|INDEX_VERSION|OBJECT_DIRECTORY"
    r"|ALTERNATE_OBJECT_DIRECTORIES|GRAFT_FILE|SHALLOW_FILE|NAMESPACE|PREFIX|QUARANTINE_PATH"
    r"|CONFIG|CONFIG_PARAMETERS|NO_REPLACE_OBJECTS|REPLACE_REF_BASE|INTERNAL_.*|TRACE.*|TR2_.*"
    r"|CURL_VERBOSE|REFLOG_ACTION|PUSH_OPTION_.*|DEFAULT_REF_FORMAT|EXTERNAL_DIFF)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitResult:
    """The result of a run. `code` is None after a timeout."""

    code: int | None
    output: str
    errors: str


def build_environment(environ: Mapping[str, str]) -> dict[str, str]:
    variables = {
        name: value
        for name, value in environ.items()
        if name in _PASSED or (name.startswith("GIT_") and not _OTHERS.fullmatch(name))
    }
    variables.setdefault("PATH", os.defpath)
    return variables | {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",  # do not fetch missing objects from a promisor
    }


def version(environ: Mapping[str, str], *, seconds: float) -> str:
    """Return the version of git."""
    ended = _run(["--version"], build_environment(environ), folder=Path("/"), seconds=seconds)
    if ended.code != 0:
        raise GitFailed("git cannot be run")
    return ended.output.strip()


def run_git(
    home: Path,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    *,
    scratch: Path,
    seconds: float,
    limit: int = MAX_OUTPUT_BYTES,
    ended: Callable[[], bool] = lambda: False,
    umask: int = -1,
    address: str = "",
) -> GitResult:
    """Run git on the repository at `home`; do not use relative paths in `arguments`. `scratch` is
    our folder for its working files, `address` that of the remote it uses."""
    settings = [part for key, value in isolation.SETTINGS for part in ("-c", f"{key}={value}")]
    with isolation.isolate(home, scratch, address) as isolated:
        # The config file is in GIT_COMMON_DIR. GIT_DIR is the real one, for the user's
        # `includeIf "gitdir:..."`, and for HEAD and index, which protect objects from pruning.
        variables = build_environment(environ) | {
            "GIT_DIR": str(home),
            "GIT_COMMON_DIR": str(isolated),
        }
        return _run(
            [*settings, *arguments],
            variables,
            folder=isolated,
            seconds=seconds,
            limit=limit,
            ended=ended,
            umask=umask,
        )


def _run(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    *,
    folder: Path,
    seconds: float,
    limit: int = MAX_OUTPUT_BYTES,
    ended: Callable[[], bool] = lambda: False,
    umask: int = -1,
) -> GitResult:
    program = shutil.which("git", path=variables["PATH"])
    if program is None:
        raise GitFailed("git is not found: install it, or add it to PATH")
    try:
        process = subprocess.Popen(  # noqa: S603  no shell, and every argument is checked
            [program, *arguments],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # no terminal to prompt on; killed as a group
            umask=umask,
        )
    except OSError as exc:
        raise GitFailed(f"{program} cannot be run: {exc.strerror}") from exc
    with process:
        try:
            output, errors = _read(process, time.monotonic() + seconds, limit, ended)
        except BaseException as exc:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(exc, TimeoutError):
                return GitResult(code=None, output="", errors="")
            raise
    return GitResult(code=process.returncode, output=output, errors=errors)


def _read(
    process: "subprocess.Popen[bytes]", deadline: float, limit: int, ended: Callable[[], bool]
) -> tuple[str, str]:
    """Read the beginning of both streams until they end or the process does: a process that it
    leaves behind, such as ssh, keeps them open."""
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    buffers = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in buffers:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0 or ended():
                raise TimeoutError
            ready = selector.select(min(left, GLANCE_SECONDS))
            if not ready and process.poll() is not None:
                break
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                buffer = buffers[key.fileobj]  # type: ignore[index]
                buffer += data[: max(0, limit - len(buffer))]
    out, err = (buffer.decode("utf-8", "replace") for buffer in buffers.values())
    return out, err
