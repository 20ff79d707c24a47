"""Replay the first week of a new user, mistakes included, and print it as a transcript.

    python tools/first_week.py                       with the programs of this environment
    python tools/first_week.py --programs OTHER/bin  with another installation, to compare

Each step is a command as people type it, with what must come of it: its exit code, and texts that
must or must not be in its output. The home is fresh, and deleted at the end; daemon, git, shells
and terminals are real. The last line counts the steps that did what they should; if one did not,
the exit code is 1. The script needs only the standard library, and so tries any installation.
"""

import argparse
import codecs
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import textwrap
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from home_programs import write_programs

SETTINGS = 'grpc.port = 0\nhttp.port = 0\nembedder.provider = "none"\n'
SECONDS = 30.0
WIDE = 100
NARROW = 60
_SHOWN_LINES = 30
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\r*\n)")  # lines of progress
_COLOUR = re.compile(r"\x1b\[[0-9;]*[1-9]m")

# `tab memory conf` prints what bash completes, by the function that our script defines.
_TAB = """\
#!/bin/bash
[ -s ~/completion ] || memory completion bash > ~/completion
. ~/completion
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*"
COMP_POINT=${#COMP_LINE}
function=$(complete -p "$1" 2>/dev/null | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
[ -n "$function" ] || { echo "$1 has no completion"; exit 1; }
"$function" "$1" "${@: -1}" "${@: -2:1}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
# An editor that needs nobody: EDITOR='fill-in summary Use PostgreSQL 18' changes that field.
_FILL_IN = """\
#!/bin/bash
sed -i.old "s/^$1:.*/$1: ${*:2:$#-2}/" "${@: -1}"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekStep:
    """A command, and what must come of it."""

    command: str
    code: int = 0
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ("Traceback",)
    columns: int | None = None  # the width of its terminal; without one, it runs in a pipe
    answers: tuple[tuple[str, str], ...] = ()  # wait for a text, and type another
    is_coloured: bool = False
    keep: str = ""  # a name for the id in its output, which later commands write as {name}
    needs: str = ""  # a program without which this step is left out
    elsewhere: bool = False  # on the other machine of the user


@dataclass(frozen=True, slots=True)
class WeekDay:
    title: str
    steps: tuple[WeekStep, ...]


def _ask(program: str, words: str, *offers: str) -> WeekStep:
    """Return the step that completes these words in bash."""
    return WeekStep(command=f"tab {program} {words}", has=offers)


DAYS = (
    WeekDay(
        "Monday: settings (part 1)",
        (
            WeekStep(command="memory config path", has=("agent-memory/config.toml",)),
            WeekStep(command="memory config set cli.color true", has=("cli.color = true",)),
            WeekStep(command="memory config get cli.color", has=("true",)),
            WeekStep(command="memory-daemon status", code=1, has=("Not running",)),
            WeekStep(command="memory config set http.tls_cert /wrong.pem"),
            WeekStep(command="memory-daemon stop || true"),
            WeekStep(command="memory status", code=3, has=("http.tls_cert", "/wrong.pem")),
            WeekStep(command="memory config set http.tls_cert ''"),
            # Where that is refused, people mend the file by hand; the week goes on.
            WeekStep(command="sed -i.old /wrong.pem/d ~/.config/agent-memory/config.toml"),
            WeekStep(command="memory status", has=("Total: 0 memories",)),
            WeekStep(command="kontekst stop", has=("stopped",)),
            WeekStep(
                command="memory config set llama.server ~/bin/tab", has=("at the next start",)
            ),
            WeekStep(command="memory-daemon start", has=("Daemon started",)),
            WeekStep(command="memory config get llama.server", has=("bin/tab",)),
            WeekStep(
                command="memory config set llama.parallel 2",
                has=("`memory-daemon restart`",),
            ),
            WeekStep(
                command="memory config set llama.parallel 3",
                columns=WIDE,
                answers=(("[y/N]", "y\n"),),
                has=("llama.parallel = 3", "Daemon restarted"),
            ),
            WeekStep(command="memory config set llama.serverr x", code=3, has=("did you mean",)),
        ),
    ),
    WeekDay(
        "Monday, later: the first agent, memories and conversations",
        (
            WeekStep(command="memory install claude-code", has=("Start a new session",)),
            WeekStep(command="memory import --from jsonl ~/conversations.jsonl", has=("6 events",)),
            WeekStep(
                command='memory capture decisions "Use PostgreSQL for the data layer of the shop"'
                " --tags database,draft",
                has=("Captured memory: decisions:",),
                keep="decision",
            ),
            WeekStep(
                command='memory capture blockers "The test database fills its disk every night"'
                " --tags database,ci --relates-to {decision}",
                has=("Captured memory: blockers:",),
                keep="blocker",
            ),
        ),
    ),
    WeekDay(
        "Tuesday: completion (part 2)",
        (
            _ask("memory", "conf", "config"),
            _ask("memory", "show dec", "{decision}"),
            _ask("memory", "list --tags dat", "database"),
            _ask("memory", "list --project sh", "shop"),
            _ask("memory", "capture dec", "decisions"),
            _ask("memory", "config get llama.ser", "llama.server"),
            _ask("memory", "uninstall clau", "claude-code"),
            _ask("memory", "recall --session 4f2a-h", "4f2a-harbor"),
            _ask("memory-daemon", "scheduler run seg", "segment-summarizer"),
            _ask("kontekst", "sk", "skills"),
            WeekStep(command="memory completion zsh | zsh -n", needs="zsh"),
            WeekStep(
                command="fish --no-config -c 'memory completion fish | source; "
                'complete -C "memory-daemon sched"\'',
                has=("scheduler",),
                needs="fish",
            ),
            WeekStep(command="memory completion bash --install", has=(".bashrc",)),
        ),
    ),
    WeekDay(
        "Tuesday, later: what people type (part 3)",
        (
            WeekStep(
                command='memory capture decision "Version the API by path"',
                has=("Captured memory: decisions:",),
            ),
            WeekStep(command="memory capture decsions x", code=2, has=("did you mean 'dec",)),
            WeekStep(command="memory recal postgres", code=2, has=("did you mean 'recall'?",)),
            WeekStep(command="memory start", code=2, has=("did you mean `memory-daemon start`?",)),
            WeekStep(
                command="memory recall postgres --limt 3", code=2, has=("did you mean", "'--limit'")
            ),
            WeekStep(
                command='memory-daemon query events --from yesterday --to "{tomorrow}"',
                has=("The harbor needs a crane", "Total: 4 events"),
            ),
            WeekStep(command="memory-daemon query events --since 3d -n 1", has=("1 event",)),
            WeekStep(
                command="memory recall crane --in event",
                has=("The harbor needs a crane",),
            ),
            WeekStep(
                command="memory recall crane --in events --session 4f2a-h",
                has=("The harbor needs a crane",),
            ),
            WeekStep(
                command="memory recall crane --session 4f2a",
                code=11,
                has=("4f2a-harbor", "4f2a-lighthouse"),
            ),
            WeekStep(command="memory show 7c1f", has=("7c1f-quarry",)),
            WeekStep(
                command="memory recall crane --project shpo", code=10, has=("did you mean 'shop'",)
            ),
            WeekStep(
                command="memory show 99999999 --format json",
                code=10,
                has=('{"error": ', '"exit_code": 10'),
            ),
            WeekStep(
                command="memory recall x --in evnts --format json",
                code=2,
                has=('{"error": ', "did you mean 'events'?"),
            ),
            WeekStep(
                command="echo 'namespace: blocker\nsummary: The crane is stuck'"
                " | memory import --format json",
                has=('"captured": 1',),
            ),
            WeekStep(command="memory list --since yesterday -n 2", has=("The crane is stuck",)),
            WeekStep(command="memory list --limit 0", code=2, has=("--limit",)),
        ),
    ),
    WeekDay(
        "Wednesday: editing (part 4)",
        (
            WeekStep(
                command="EDITOR='fill-in summary Use PostgreSQL 18' memory edit {decision}",
                columns=WIDE,
                has=("Superseded {decision} by: decisions:",),
                keep="edited",
            ),
            WeekStep(
                command="EDITOR='fill-in summary Cranes need grease' memory capture learning",
                columns=WIDE,
                has=("Captured memory: learnings:",),
            ),
            WeekStep(command="memory list", has=("Use PostgreSQL 18", "Cranes need grease")),
            WeekStep(
                command="memory edit {blocker} --remove-tag ci --remove-relation {decision}",
                has=("Changed: {blocker}",),
            ),
            WeekStep(
                command="memory show {blocker}",
                has=("Ann Example <ann@example.org>", "database"),
                lacks=("ci,", ", ci", "Relates to"),
            ),
            WeekStep(command="memory undo --dry-run", has=("{blocker}",)),
            WeekStep(
                command="memory undo",
                columns=WIDE,
                answers=(("[y/N]", "y\n"),),
                has=("Undone: 1 memory",),
            ),
            WeekStep(
                command="memory show {blocker}", has=("ci, database", "Relates to: {decision}")
            ),
            WeekStep(command="memory why {blocker}", has=("Ann Example <ann@example.org>",)),
            WeekStep(command="memory edit {blocker}", code=2, has=("terminal",)),
        ),
    ),
    WeekDay(
        "Thursday: nothing lost in passing (part 5)",
        (
            WeekStep(command='memory capture progress "Old news" --tags news'),
            WeekStep(command='memory capture patterns "Prefer plain text" --tags a'),
            WeekStep(command='memory capture patterns "Prefer plain texts" --tags b'),
            WeekStep(command="memory export --include-archived -o ~/first.yaml"),
            WeekStep(command="memory list --format json | grep -A3 tags > ~/tags"),
            WeekStep(
                command="memory consolidate", has=("Supersede patterns:",), lacks=("1 become ",)
            ),
            WeekStep(command="memory consolidate --undo", has=("1 memory restored",)),
            WeekStep(
                command="memory list --format json | grep -A3 tags | cmp - ~/tags && echo the same",
                has=("the same",),
            ),
            WeekStep(command="git clone --quiet ~/shop ~/laptop/shop"),
            WeekStep(
                command="memory import ~/../first.yaml",
                has=("skipped 0",),
                elsewhere=True,
            ),
            WeekStep(
                command="memory export --include-archived -o ~/../second.yaml", elsewhere=True
            ),
            WeekStep(command="memory-daemon stop", has=("stopped",), elsewhere=True),
            WeekStep(command="grep superseded_by ~/first.yaml", has=("{edited}",)),
            WeekStep(command="cmp ~/first.yaml ~/second.yaml && echo the same", has=("the same",)),
        ),
    ),
    WeekDay(
        "Thursday, later: lists on a terminal of 60 columns (part 6)",
        (
            WeekStep(
                command="memory list",
                columns=NARROW,
                has=("The test database",),
                is_coloured=True,
            ),
            WeekStep(command="memory sessions", columns=NARROW, has=("7c1f-qua",)),
            WeekStep(command="memory show 7c1f-qua", has=("7c1f-quarry",)),
            WeekStep(command="memory log", columns=NARROW, has=("UTC (", " ago)")),
            WeekStep(command="memory recall crane", columns=NARROW, has=("crane",)),
            WeekStep(command="memory status", columns=NARROW, has=("progress 1",)),
            WeekStep(command="memory show {decision}", columns=NARROW, has=("UTC",)),
            WeekStep(command="memory-daemon scheduler status", columns=NARROW),
            WeekStep(
                command="memory-daemon query events --since 3d", columns=NARROW, lacks=("2286",)
            ),
            WeekStep(
                command="MEMORY_PAGER='sed s/^llama/LLAMA/' memory config list",
                columns=NARROW,
                has=("LLAMA.server",),
            ),
        ),
    ),
    WeekDay(
        "Friday: help (part 7)",
        (
            WeekStep(command="memory help", has=("setup", "find", "keep", "share", "remove")),
            WeekStep(command="memory help keep", has=("memory capture decision ",)),
            WeekStep(
                command="memory help keep | sed -n 's/^    //p' | bash -e",
                has=("Captured memory: decisions:",),
            ),
            WeekStep(command="memory help recall", has=("Usage: memory recall",)),
            WeekStep(command="memory help kep", code=2, has=("did you mean 'keep'?",)),
        ),
    ),
    WeekDay(
        "Friday, later: the pages of the docs (part 8)",
        (
            WeekStep(
                command="python -c 'from importlib.metadata import requires\n"
                'print(*(each for each in requires("agent-memory") if "=" in each), sep="\\n")\'',
                has=("langgraph<",),
            ),
            WeekStep(
                command="python -c 'from agent_memory.client.langgraph import AgentMemorySaver\n"
                "from langgraph.graph import StateGraph\n"
                'print("imported")\'',
                has=("imported",),
            ),
            WeekStep(command='memory recall "which database did we decide on"', has=("Postgre",)),
            WeekStep(command="memory today", has=("UTC",)),
        ),
    ),
    WeekDay(
        "Saturday: installed as pipx does it, by links (part 10)",
        (
            WeekStep(command="ln -s $(command -v memory memory-daemon kontekst) ~/.local/bin"),
            WeekStep(command="~/.local/bin/memory --version", has=("0.",)),
            WeekStep(command="~/.local/bin/memory-daemon --version", has=("0.",)),
            WeekStep(command="~/.local/bin/kontekst --version", has=("0.",)),
            WeekStep(
                command="python -c 'from importlib.metadata import metadata\n"
                'print(*metadata("agent-memory").get_all("Classifier"), sep="\\n")\'',
                has=("Python :: 3.11", "Python :: 3.14"),
            ),
            WeekStep(command="rm ~/.local/bin/*"),
        ),
    ),
    WeekDay(
        "Sunday: uninstall (part 9)",
        (
            WeekStep(command="memory install codex"),
            WeekStep(command="memory uninstall codex", has=("Removed",)),
            WeekStep(command="ls -d ~/.codex", code=2, has=("No such file",)),
            WeekStep(
                command="memory uninstall --all --purge --dry-run",
                has=("Would stop the daemon", "Would ask twice"),
            ),
            WeekStep(command="memory uninstall --all --purge", code=2, has=("--yes",)),
            WeekStep(command="memory list --limit 1", has=("blockers:",)),
            WeekStep(
                command="memory uninstall --all --purge --yes --delete-data",
                has=("Stopped the daemon", "Deleted"),
            ),
            WeekStep(command="memory-daemon status", code=1, has=("Not running",)),
            WeekStep(
                command="cd ~ && find . '(' -name laptop -o -name .git ')' -prune -o -print | sort",
                lacks=("agent-memory", ".claude", ".codex", "completion.bash"),
            ),
            WeekStep(command="cat ~/.bashrc", has=("# mine",), lacks=("memory",)),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The exit code and the output of a step, both streams together."""

    code: int | None  # None: it did not end in time
    raw: str

    @property
    def text(self) -> str:
        """Return the output as a person sees it: without colours and lines of progress."""
        return _OVERWRITTEN.sub("", _CONTROLS.sub("", self.raw)).replace("\r", "")


class FreshHome:
    """A user with a git repository, the programs of an installation, and nothing of ours."""

    def __init__(self, programs: Path) -> None:
        # A short path, because the path of a Unix socket may have 107 bytes.
        self.folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="week-"))
        self.laptop = self.folder / "laptop"
        self._programs = programs
        self._prepare()

    def environ(self, *, elsewhere: bool) -> dict[str, str]:
        home = self.laptop if elsewhere else self.folder
        system = [
            folder
            for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)
            if not Path(folder, "memory-daemon").exists()
        ]
        return {
            "PATH": os.pathsep.join([str(self.folder / "bin"), str(self._programs), *system]),
            "HOME": str(home),
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "MEMORY_PAGER": "",  # nobody is there to turn pages
            "PAGER": "cat",
        }

    def run(self, step: WeekStep, command: str) -> StepOutput:
        words = ["bash", "-c", command]
        environ = self.environ(elsewhere=step.elsewhere)
        folder = Path(environ["HOME"]) / "shop"
        if not folder.is_dir():
            folder = folder.parent
        if step.columns:
            return _run_on_terminal(words, environ, folder, step.columns, step.answers)
        return _run_in_pipe(words, environ, folder)

    def remove(self) -> None:
        """Stop the daemons that are left, and delete all folders."""
        for elsewhere in (False, True):
            environ = self.environ(elsewhere=elsewhere)
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(  # noqa: S603
                    [self.folder / "bin/memory-daemon", "stop"],
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=SECONDS,
                    check=False,
                )
        shutil.rmtree(self.folder, ignore_errors=True)

    def _prepare(self) -> None:
        for name in ("bin", "laptop", ".config", ".local/bin", ".local/share", ".cache"):
            (self.folder / name).mkdir(mode=0o700, parents=True)
        write_programs(self.folder / "bin", self._programs)
        for home in (self.folder, self.laptop):
            file = home / ".config/agent-memory/config.toml"
            file.parent.mkdir(mode=0o700, parents=True)
            file.write_text(SETTINGS)
        for name, text in (("tab", _TAB), ("fill-in", _FILL_IN)):
            program = self.folder / "bin" / name
            program.write_text(text)
            program.chmod(0o700)
        (self.folder / ".bashrc").write_text("# mine\n")
        events = "".join(f"{json.dumps(event)}\n" for event in _make_events())
        (self.folder / "conversations.jsonl").write_text(events)
        for command in (
            "git init --quiet ~/shop",
            "git -C ~/shop config user.name 'Ann Example'",
            "git -C ~/shop config user.email ann@example.org",
            "git -C ~/shop commit --quiet --allow-empty -m First",
        ):
            done = self.run(WeekStep(command=command), command)
            if done.code != 0:
                sys.exit(f"`{command}` fails: {done.text}")


def _make_events() -> Iterator[dict[str, object]]:
    """Yield three sessions: two of yesterday, whose ids begin alike, and one of long ago."""
    yesterday = datetime.now(UTC).replace(hour=9, minute=30) - timedelta(days=1)
    for name, at in (
        ("4f2a-harbor", yesterday),
        ("4f2a-lighthouse", yesterday + timedelta(hours=2)),
        ("7c1f-quarry", yesterday - timedelta(days=40)),
    ):
        place = name.partition("-")[2]
        for number, (role, text) in enumerate(
            (
                ("user", f"The {place} needs a crane. Which one do we take?"),
                ("assistant", f"Decision: the {place} gets the small crane, it fits the gate."),
            )
        ):
            yield {
                "event_id": f"{place}-{number}",
                "session_id": name,
                "timestamp": (at + timedelta(minutes=number)).isoformat(),
                "event_type": f"{role}_message",
                "role": role,
                "text": text,
                "metadata": {"project": "shop"},
            }


def _run_in_pipe(words: list[str], environ: dict[str, str], folder: Path) -> StepOutput:
    with subprocess.Popen(  # noqa: S603
        words,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return StepOutput(None, output.decode(errors="replace"))
    return StepOutput(process.returncode, output.decode(errors="replace"))


def _run_on_terminal(
    words: list[str],
    environ: dict[str, str],
    folder: Path,
    columns: int,
    answers: tuple[tuple[str, str], ...],
) -> StepOutput:
    """Run a command on a terminal of its own, and type each answer when its text is there."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        os.chdir(folder)
        os.execvpe(words[0], words, environ)  # noqa: S606
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    waiting, seen, text = list(answers), 0, ""
    deadline = time.monotonic() + SECONDS
    is_over = False
    while not is_over:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            os.killpg(pid, signal.SIGKILL)
            break
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux reports the end of a terminal as an error
            piece = b""
        is_over = not piece
        text += decoder.decode(piece)
        if waiting and waiting[0][0] in text[seen:]:
            seen = len(text)
            os.write(terminal, waiting.pop(0)[1].encode())
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return StepOutput(os.waitstatus_to_exitcode(status) if is_over else None, text)


def find_faults(step: WeekStep, output: StepOutput, names: dict[str, str]) -> list[str]:
    """Return what is not as it should be, in words."""
    text = output.text
    faults = []
    if output.code is None:
        faults.append(f"it did not end within {SECONDS:g} seconds")
    elif output.code != step.code:
        faults.append(f"exit code {step.code} expected")
    flat = " ".join(text.lower().split())  # how a sentence is spelled and broken is no matter
    has, lacks = (
        [_insert_names(each, names) for each in texts] for texts in (step.has, step.lacks)
    )
    faults += [f"not there: {each}" for each in has if each.lower() not in flat]
    faults += [f"there: {each}" for each in lacks if each.lower() in flat]
    if step.columns and any(len(line) > step.columns for line in text.splitlines()):
        faults.append(f"a line is wider than {step.columns} columns")
    if step.is_coloured and not _COLOUR.search(output.raw):
        faults.append("no colour")
    return faults


def _insert_names(text: str, names: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: names.get(match[1], match[0]), text)


def _find_id(text: str) -> str:
    """Return the last id of a memory in an output."""
    found = re.findall(r"\b[a-z]+:[0-9a-f]{8,}:\d+", text)
    return found[-1] if found else "none"


def _write(text: str = "") -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _show(step: WeekStep, command: str, output: StepOutput, faults: list[str]) -> None:
    where = "  # on the laptop" if step.elsewhere else ""
    where += f"  # on a terminal of {step.columns} columns" if step.columns else ""
    _write(f"$ {command}{where}")
    lines = output.text.rstrip("\n").split("\n") if output.text.strip() else []
    if len(lines) > _SHOWN_LINES + 1:
        half = _SHOWN_LINES // 2
        lines[half:-half] = [f"... {len(lines) - 2 * half} lines ..."]
    for line in lines:
        _write(textwrap.indent(line, "    "))
    _write(f"  [exit {output.code}] {'; '.join(['NOT AS EXPECTED', *faults]) if faults else 'ok'}")


def replay(programs: Path) -> int:
    """Go through the week. Return how many steps did not do what they should."""
    home = FreshHome(programs)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    names = {"tomorrow": f"{tomorrow.day} {tomorrow:%b %Y}"}
    steps = bad = 0
    try:
        for day in DAYS:
            _write(f"\n== {day.title}\n")
            for step in day.steps:
                if step.needs and not shutil.which(step.needs):
                    _write(f"  (left out: {step.needs} is not installed)")
                    continue
                command = _insert_names(step.command, names)
                output = home.run(step, command)
                faults = find_faults(step, output, names)
                _show(step, command, output, faults)
                if step.keep:
                    names[step.keep] = _find_id(output.text)
                steps += 1
                bad += bool(faults)
    finally:
        home.remove()
    _write(f"\n{steps - bad} of {steps} steps did what they should")
    return bad


def main() -> int:
    about, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--programs",
        type=Path,
        default=Path(sys.executable).parent,
        metavar="FOLDER",
        help="folder with memory, memory-daemon, kontekst and their python (default: of this one)",
    )
    programs = parser.parse_args().programs.absolute()
    if not (programs / "memory-daemon").exists():
        parser.error(f"there is no memory-daemon in {programs}")
    return 1 if replay(programs) else 0


if __name__ == "__main__":
    sys.exit(main())
