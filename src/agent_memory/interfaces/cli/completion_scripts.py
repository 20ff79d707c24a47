"""The scripts that shells load to complete our programs, and where they are installed.

They are our own, not click's: one script for three programs, and bash splits ids at their colons.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_memory import config
from agent_memory.kernel.errors import ConfigError
from agent_memory.platform import durable

MARK = "# Agent Memory"
# Lines that our documentation tells users to write.
_OWN_LINES = re.compile(
    r'\s*(?:eval "\$\(memory completion (?:bash|zsh)\)"|memory completion fish \| source)\s*'
)

BASH = r"""_agent_memory_complete() {
    local variable line word kept="" kind value
    case "${1##*/}" in
        memory-daemon) variable=_MEMORY_DAEMON_COMPLETE ;;
        kontekst) variable=_KONTEKST_COMPLETE ;;
        *) variable=_MEMORY_COMPLETE ;;
    esac
    line="${COMP_LINE:0:COMP_POINT}"
    word="${line##*[[:space:]]}"
    # bash splits words at colons, and keeps what precedes the last one.
    if [[ "$COMP_WORDBREAKS" == *:* && "$word" == *:* ]]; then kept="${word%:*}:"; fi
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case "$kind" in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            plain)
                value="${value#"$kept"}"
                if [[ "$value" == *[[:space:]\'\"\$\\\&\;\(\)]* ]]; then
                    printf -v value %q "$value"
                fi
                COMPREPLY+=("$value")
                ;;
        esac
    done < <(env "$variable=bash_complete" COMP_WORDS="$line" "$1" </dev/null 2>/dev/null)
}
complete -o nosort -F _agent_memory_complete memory memory-daemon kontekst 2>/dev/null ||
    complete -F _agent_memory_complete memory memory-daemon kontekst
"""

ZSH = r"""#compdef memory memory-daemon kontekst

_agent_memory_complete() {
    local variable kind value about
    local -a answer plain described
    case "${words[1]:t}" in
        memory-daemon) variable=_MEMORY_DAEMON_COMPLETE ;;
        kontekst) variable=_KONTEKST_COMPLETE ;;
        *) variable=_MEMORY_COMPLETE ;;
    esac
    answer=("${(@f)$(env "$variable=zsh_complete" COMP_WORDS="${words[*]}" \
        COMP_CWORD=$((CURRENT - 1)) "${words[1]}" </dev/null 2>/dev/null)}")
    if [[ "${words[CURRENT]}" == -*=* ]]; then compset -P '*='; fi
    for kind value about in "${answer[@]}"; do
        case "$kind" in
            plain)
                if [[ "$about" == _ ]]; then plain+=("$value")
                else described+=("$value:$about"); fi ;;
            dir) _path_files -/ ;;
            file) _path_files -f ;;
        esac
    done
    if (( $#described )); then _describe -V unsorted described; fi
    if (( $#plain )); then compadd -V unsorted -a plain; fi
}

if [[ "${zsh_eval_context[-1]}" == loadautofunc ]]; then
    _agent_memory_complete "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
    compdef _agent_memory_complete memory memory-daemon kontekst
fi
"""

FISH = r"""function _agent_memory_complete
    set -l program (commandline -opc)[1]
    set -l variable _MEMORY_COMPLETE
    switch (string replace -r '.*/' '' -- $program)
        case memory-daemon
            set variable _MEMORY_DAEMON_COMPLETE
        case kontekst
            set variable _KONTEKST_COMPLETE
    end
    set -l line (commandline -cp | string collect)
    set -l word (commandline -ct | string collect)
    for answer in (env $variable=fish_complete COMP_WORDS="$line" COMP_CWORD="$word" \
            $program </dev/null 2>/dev/null)
        set -l parts (string split -m 1 , -- $answer)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case plain
                echo $parts[2]
        end
    end
end
for program in memory memory-daemon kontekst
    complete --no-files --keep-order --command $program --arguments '(_agent_memory_complete)'
end
"""

SCRIPTS: Mapping[str, str] = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionPlace:
    """Where the script of a shell is installed. fish loads it by itself, so it has no startup
    file."""

    shell: str
    script: Path
    startup: Path | None = None

    def list_missing(self) -> tuple[str, ...]:
        """Return the folders that `install` has to make."""
        return durable.list_missing(self.script.parent)

    def install(self) -> list[Path]:
        """Write the script, and a line that loads it. Return the changed files."""
        changed = []
        try:
            text = SCRIPTS[self.shell]
            if not self.script.is_file() or self.script.read_text() != text:
                self.script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                durable.write_atomic(self.script, text.encode())
                changed.append(self.script)
            if self.startup is not None:
                before = _read(self.startup)
                if self._line() not in before.splitlines():
                    end = "" if before.endswith("\n") or not before else "\n"
                    _replace(self.startup, f"{before}{end}{self._line()}\n")
                    changed.append(self.startup)
        except OSError as exc:
            raise ConfigError(f"cannot write {exc.filename}: {exc.strerror}") from exc
        return changed

    def remove(self, *, dry_run: bool = False) -> list[Path]:
        """Undo `install`, and remove the lines of the documentation. Return the changed files, or
        those that would change."""
        changed = []
        try:
            if self.script.is_file():
                if not dry_run:
                    self.script.unlink()
                changed.append(self.script)
            for path in self._list_startup_files():
                before = _read(path)
                after = "".join(
                    line for line in before.splitlines(keepends=True) if not self._is_ours(line)
                )
                if after != before:
                    if not dry_run:
                        _replace(path, after)  # also if nothing is left: it may be the user's
                    changed.append(path)
        except OSError as exc:
            raise ConfigError(f"cannot change {exc.filename}: {exc.strerror}") from exc
        return changed

    def _line(self) -> str:
        path = str(self.script).replace("'", "'\\''")
        return f"[ ! -f '{path}' ] || . '{path}'  {MARK}"

    def _is_ours(self, line: str) -> bool:
        return line.rstrip("\n") == self._line() or _OWN_LINES.fullmatch(line) is not None

    def _list_startup_files(self) -> Iterator[Path]:
        if self.startup is not None:
            yield self.startup
        else:
            yield self.script.parents[1] / "config.fish"


def find_place(shell: str, environ: Mapping[str, str]) -> CompletionPlace:
    home = Path(environ.get("HOME") or "/")
    folder = config.folders(environ).config
    if shell == "fish":
        script = folder.parent / "fish/conf.d/agent-memory.fish"
        return CompletionPlace(shell=shell, script=script)
    base = Path(environ.get("ZDOTDIR") or home) if shell == "zsh" else home
    return CompletionPlace(
        shell=shell, script=folder / f"completion.{shell}", startup=base / f".{shell}rc"
    )


def _read(path: Path) -> str:
    return path.read_bytes().decode(errors="surrogateescape") if path.exists() else ""


def _replace(path: Path, text: str) -> None:
    target = path.resolve()  # a link into the user's dotfiles stays
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
    durable.write_atomic(target, text.encode(errors="surrogateescape"), mode=mode)
