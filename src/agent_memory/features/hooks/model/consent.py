"""Consent: whether hooks may record in a folder, and which files they leave out. No I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agent_memory.kernel.ids import Millis
from agent_memory.kernel.text import gitignore
from agent_memory.kernel.text.gitignore import IgnoreFile
from agent_memory.kernel.text.globs import FolderGlob

IGNORE_FILE = ".memoryignore"
# How old a call in the spool may be and still wait for the user to allow recording again.
MAX_WAIT_MS = 7 * 86_400_000
_EVERYTHING = frozenset({"/", ".", "./"})  # git gives these no meaning
_ANY_NAME = "\0any"  # no file has it: only a rule for every name matches it


class ConsentReason(StrEnum):
    """Why hooks record in a folder, or not. The values are shown to programs."""

    GIVEN = "on"
    PAUSED = "paused"
    UNREADABLE = "settings-unreadable"
    DISABLED = "hooks-disabled"
    EXCLUDED = "excluded"
    NOT_CHOSEN = "not-in-projects"
    IGNORED = "memoryignore"


_PASSING_REASONS = (ConsentReason.PAUSED, ConsentReason.UNREADABLE)  # no last word on a place


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """A decision with its reason. `detail` is the pattern, the file or the problem behind it."""

    reason: ConsentReason = ConsentReason.GIVEN
    detail: str = ""
    until_ms: Millis | None = None  # of a pause; None: until it is ended

    @property
    def is_given(self) -> bool:
        return self.reason is ConsentReason.GIVEN

    def may_wait(self, age_ms: int) -> bool:
        """Return whether a call of this age may wait until this decision changes. One that was made
        while recording was on may, for some days; during a pause, for as long as that takes."""
        return self.reason in _PASSING_REASONS or age_ms <= MAX_WAIT_MS


GIVEN = Consent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause of all recording. `problem` says why it cannot be read, if so: then it has no end."""

    until_ms: Millis | None = None
    problem: str = ""

    def is_over(self, now_ms: int) -> bool:
        return self.until_ms is not None and self.until_ms <= now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentRules:
    """The settings that say where hooks record. `unreadable` says why they cannot be read."""

    enabled: bool = True
    opt_in: bool = False
    projects: tuple[FolderGlob, ...] = ()
    exclude: tuple[FolderGlob, ...] = ()
    unreadable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderNames:
    """The absolute paths by which a folder is known: as an agent names it, where links lead, and in
    the main worktree of its repository.

    A repository may only claim to be the worktree of another one. `claimed` are such paths: they
    can exclude the folder, but not choose it.
    """

    own: tuple[str, ...]
    claimed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectChoice:
    """What the user's lists of folders have to say of a project so that it is recorded."""

    root: str
    unwanted: frozenset[str] = frozenset()  # patterns in `hooks.exclude`
    missing: str = ""  # a pattern for `hooks.projects`


def decide(
    rules: ConsentRules,
    folder: FolderNames,
    around: Iterable[FolderNames],
    pause: Pause | None,
    now_ms: int,
) -> Consent:
    """Decide whether hooks may record in a folder.

    `around` are other folders of the session, such as the one where it began: none of them may be
    excluded.
    """
    if pause is not None and not pause.is_over(now_ms):
        return Consent(reason=ConsentReason.PAUSED, detail=pause.problem, until_ms=pause.until_ms)
    if rules.unreadable:
        return Consent(reason=ConsentReason.UNREADABLE, detail=rules.unreadable)
    if not rules.enabled:
        return Consent(reason=ConsentReason.DISABLED)
    if rules.exclude:
        names = [name for each in (folder, *around) for name in (*each.own, *each.claimed)]
        if pattern := find_match(rules.exclude, names):
            return Consent(reason=ConsentReason.EXCLUDED, detail=pattern)
    if rules.opt_in and not find_match(rules.projects, folder.own):
        return Consent(reason=ConsentReason.NOT_CHOSEN)
    return GIVEN


def find_match(patterns: Iterable[FolderGlob], paths: Sequence[str]) -> str:
    """Return the first pattern that matches one of the paths, as it was written, or nothing."""
    return next((each.text for each in patterns if any(each.matches(path) for path in paths)), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRules:
    """The rules of one `.memoryignore`, for everything below its folder.

    A file that cannot be used as a whole ignores everything: a rule that is lost would be recorded.
    """

    folder: tuple[str, ...]  # the parts of its path
    file: str
    rules: IgnoreFile
    problem: str = ""

    @property
    def ignores_all(self) -> bool:
        """Whether it leaves out everything in its folder, without an exception."""
        if any(rule.negated for rule in self.rules.rules):
            return False
        return self.rules.verdict((_ANY_NAME,), folder=False) is True

    def describe(self) -> str:
        return f"{self.file}: {self.problem}" if self.problem else self.file


def parse_ignore_rules(folder: str, file: str, text: str) -> IgnoreRules:
    """Parse a `.memoryignore`, which has the syntax of `.gitignore`."""
    lines = text.split("\n")
    if len(lines) > gitignore.MAX_RULES:
        return build_unusable(folder, file, f"it has more than {gitignore.MAX_RULES:,} lines")
    lines = ["*" if line.strip() in _EVERYTHING else line for line in lines]
    return IgnoreRules(
        folder=split_path(folder), file=file, rules=IgnoreFile.parse("\n".join(lines))
    )


def build_unusable(folder: str, file: str, problem: str) -> IgnoreRules:
    """Build the rules of a `.memoryignore` that cannot be read."""
    rules = IgnoreFile.parse("*")
    return IgnoreRules(folder=split_path(folder), file=file, rules=rules, problem=problem)


def find_ignoring(stack: Sequence[IgnoreRules], path: str, *, folder: bool) -> IgnoreRules | None:
    """Return the rules that ignore an absolute path, or None. `stack` has the outermost first.

    As in git, the innermost file with a match decides, and nothing below an ignored folder is
    included again.
    """
    parts = split_path(path)
    for end in range(1, len(parts) + 1):
        for each in reversed(stack):
            depth = len(each.folder)
            if depth >= end or parts[:depth] != each.folder:
                continue
            verdict = each.rules.verdict(parts[depth:end], folder=folder or end < len(parts))
            if verdict:
                return each
            if verdict is not None:
                break
    return None


def find_all_ignoring(stack: Sequence[IgnoreRules], folder: str) -> IgnoreRules | None:
    """Return the rules that ignore a folder with everything in it, or None."""
    parts = split_path(folder)
    own = next((each for each in stack if each.folder == parts and each.ignores_all), None)
    return own or find_ignoring(stack, folder, folder=True)


def split_path(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)
