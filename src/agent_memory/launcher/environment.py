"""The variables of our processes.

A repository can choose the variables with which an agent starts hooks, MCP servers and commands. So
they choose neither where our files are, nor what a daemon loads, runs or connects to.
"""

import os
import pwd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

OPTION = "--home"  # the first argument of a program, if it is there
# What a dynamic linker and Python load into a process.
LOADERS = ("LD_", "DYLD_", "PYTHON")

# All that a daemon inherits of the environment of the command that starts it.
INHERITED = frozenset(("HOME", "USER", "LOGNAME", "LANG", "TZ"))
INHERITED_PREFIX = "LC_"
# What it also inherits of `memory-daemon start`, which a person runs. MEMORY_ are settings, which
# `config` checks, and the keys that they name; the passwords are of the database.
BY_HAND = frozenset(("PATH", "SHELL", "TMPDIR", "PGPASSFILE", "PGPASSWORD"))
BY_HAND_PREFIX = "MEMORY_"
# The client sends them to another daemon, in a process of its own.
NOT_INHERITED = ("MEMORY_KEY", "MEMORY_ENDPOINT")

# Where programs are found without the caller's PATH: `~` is the home.
PROGRAM_FOLDERS = (
    "~/.local/bin", "~/bin", "/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin",
    "/run/current-system/sw/bin", "/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin",
    "/usr/sbin", "/sbin",
)  # fmt: skip


class UnknownHome(OSError):
    """Nobody knows the home of this user."""


def enter(arguments: list[str]) -> list[str]:
    """Set HOME to the user's home, or to that of `--home`, and drop the variables of loaders.

    Return the arguments without that option. Every process of ours begins with this, because its
    own processes inherit its environment.
    """
    first = arguments[0] if arguments else ""
    if first == OPTION and len(arguments) > 1:
        home, arguments = os.path.abspath(arguments[1]), arguments[2:]
    elif first.startswith(f"{OPTION}="):
        home, arguments = os.path.abspath(first.partition("=")[2]), arguments[1:]
    else:
        home = find_home()
    for name in [name for name in os.environ if name.startswith(LOADERS)]:
        del os.environ[name]
    os.environ["HOME"] = home
    return arguments


def find_home() -> str:
    """Return the home of this user. Raises UnknownHome. Variables do not count here."""
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home = ""
    if not home.startswith("/"):
        raise UnknownHome(
            0, f"the user {os.getuid()} has no home here: name a folder with {OPTION} FOLDER"
        )
    return home


def home_option(home: str = "") -> list[str]:
    """Return the option that gives a home, or that of this process, to a process of ours; nothing
    if it finds that home by itself."""
    home = home or os.environ["HOME"]
    try:
        return [] if home == find_home() else [OPTION, home]
    except UnknownHome:
        return [OPTION, home]


def build_path(home: str) -> str:
    """Return the PATH of a daemon that a hook or a command starts."""
    return ":".join(folder.replace("~", home, 1) for folder in PROGRAM_FOLDERS)


def build_daemon_environment(environ: "Mapping[str, str]", *, by_hand: bool) -> dict[str, str]:
    """Return the environment of a daemon that is started in this one."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in INHERITED
        or name.startswith(INHERITED_PREFIX)
        or (by_hand and (name in BY_HAND or name.startswith(BY_HAND_PREFIX)))
    }
    for name in NOT_INHERITED:
        kept.pop(name, None)
    return {"PATH": build_path(environ.get("HOME") or "/"), **kept}


def find_runtime(home: str) -> str:
    """Return the folder in which the system wants the sockets of this user, or an empty text if it
    has none or if this is another home than the user's."""
    folder = f"/run/user/{os.getuid()}"
    try:
        return folder if home == find_home() and os.stat(folder).st_uid == os.getuid() else ""
    except OSError:
        return ""
