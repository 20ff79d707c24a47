"""The unit with which systemd or launchd starts the daemon at login."""

import re
import subprocess
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

from agent_memory.interfaces.command_socket.calls import CommandCall
from agent_memory.kernel.errors import ConfigError, FeatureUnavailable
from agent_memory.launcher import environment
from agent_memory.platform import durable

RUN_SECONDS = 30.0
LABEL = "dev.agent-memory.daemon"
_PLAIN = re.compile(r"[\w@:./=+-]+")
# --auto: a port that another program uses must not prevent an automatic start.
MODULE = ("-I", "-m", "agent_memory.daemon.standalone", "memory-daemon")
ARGUMENTS = ("start", "--foreground", "--auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit file, and the commands that switch it on and off."""

    path: Path
    text: str
    activate: tuple[str, ...]
    deactivate: tuple[str, ...]

    def write(self) -> tuple[str, ...]:
        """Write the file, and return the folders that were made for it."""
        try:
            made = durable.list_missing(self.path.parent)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(self.text)
        except OSError as exc:
            raise ConfigError(f"cannot write {self.path}: {exc.strerror}") from exc
        return made

    def remove(self) -> bool:
        """Remove the file, and return whether it existed."""
        try:
            existed = self.path.exists()
            self.path.unlink(missing_ok=True)
        except OSError as exc:
            raise ConfigError(f"cannot remove {self.path}: {exc.strerror}") from exc
        return existed

    @staticmethod
    def run(command: tuple[str, ...]) -> None:
        """Run a command of systemd or launchd. Raises FeatureUnavailable if that fails."""
        shown = " ".join(command)
        try:
            done = subprocess.run(  # noqa: S603  # our own words, no shell
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=RUN_SECONDS,
                check=False,
            )
        except OSError as exc:
            raise FeatureUnavailable(f"`{shown}`: {exc.strerror}") from exc
        except subprocess.TimeoutExpired as exc:
            raise FeatureUnavailable(f"`{shown}` took longer than {RUN_SECONDS:.0f} s") from exc
        if done.returncode:
            reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise FeatureUnavailable(f"`{shown}`: {reason}")


def for_platform(
    call: CommandCall, platform: str = sys.platform, *, config_file: Path | None = None
) -> Unit:
    home = Path(call.environ.get("HOME") or "/")
    module = (*MODULE, *environment.home_option(str(home)))
    chosen = () if config_file is None else ("--config", str(config_file))
    arguments = (*module, *ARGUMENTS, *chosen)
    if platform == "darwin":
        return _launchd(home, arguments)
    base = call.environ.get("XDG_CONFIG_HOME", "")  # where systemd looks for units of the user
    return _systemd(Path(base) if base.startswith("/") else home / ".config", arguments)


def _systemd(config_home: Path, arguments: tuple[str, ...]) -> Unit:
    # systemd replaces variables in arguments, but not in the program: double dollar signs there.
    words = (_quote(argument.replace("$", "$$")) for argument in arguments)
    command = " ".join((_quote(sys.executable), *words))
    name = "agent-memory.service"
    return Unit(
        path=config_home / "systemd/user" / name,
        text=(
            "[Unit]\n"
            "Description=Agent Memory daemon\n"
            "\n"
            "[Service]\n"
            f"ExecStart={command}\n"
            "Restart=on-failure\n"
            "RestartSec=5\n"
            "TimeoutStopSec=10\n"
            "\n"
            "[Install]\n"
            "WantedBy=default.target\n"
        ),
        activate=("systemctl", "--user", "enable", "--now", name),
        deactivate=("systemctl", "--user", "disable", "--now", name),
    )


def _launchd(home: Path, arguments: tuple[str, ...]) -> Unit:
    path = home / "Library/LaunchAgents" / f"{LABEL}.plist"
    words = "".join(
        f"    <string>{escape(part)}</string>\n" for part in (sys.executable, *arguments)
    )
    return Unit(
        path=path,
        text=(
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN"'
            ' "http://www.apple.com/DTDs/PropertyList-1.0.dtd">\n'
            '<plist version="1.0">\n<dict>\n'
            f"  <key>Label</key><string>{LABEL}</string>\n"
            f"  <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n"
            "  <key>RunAtLoad</key><true/>\n"
            "  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n"
            "</dict>\n</plist>\n"
        ),
        activate=("launchctl", "load", "-w", str(path)),
        deactivate=("launchctl", "unload", "-w", str(path)),
    )


def _quote(word: str) -> str:
    """Quote a word of a systemd unit if needed, and escape specifiers."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    text = text.replace("\t", "\\t").replace("\n", "\\n")
    return word if _PLAIN.fullmatch(word) else f'"{text}"'
