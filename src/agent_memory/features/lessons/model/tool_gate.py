"""What a command, an edit or an error has to do with lessons: looked up, not searched."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from agent_memory.features.lessons.model.commands import list_parts, read_commands
from agent_memory.features.lessons.model.errors import find_signatures
from agent_memory.features.lessons.model.gate import RatedLesson
from agent_memory.features.lessons.model.lessons import KnownLesson, Lesson, LessonKind, Trust
from agent_memory.kernel.text.analysis import extract_terms

MAX_WRITTEN = 8_000  # characters of an edit are read
_DEEPEST = 12  # folders of a path
_ALIKE = 0.6  # share of the words of two commands that are the same one
# By how a lesson names a file: itself, a folder that it is in, or another file of its folder.
_EDITED = {"=": 0.95, "<": 0.9, "~": 0.62}
_READ = {"=": 0.9, "<": 0.7, "~": 0.0}
_NAMED_FILE = {"=": 0.85, "<": 0.85, "~": 0.0}  # by a command
_SAME_COMMAND, _FORBIDDEN, _NAMED_COMMAND, _NAMED = 0.97, 0.95, 0.9, 0.7
_SAME_ERROR = 0.98
THRESHOLD = 0.6
_FEW = 3  # lessons with the same name: of a name in more, it does not tell which one helps
# A name by its form: staging.shop.example, checkout-legacy, api_v2; neither words nor paths.
_DISTINCT = re.compile(r"[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)+")
# Commands that only show, take something away or keep what is there, whatever words they have.
_SHOWING_NAMES = """
ag awk bat cat cmp diff egrep fd fgrep file find git grep head jq less ls more nl rg stat tail tree
"""
_SHOWING = frozenset(_SHOWING_NAMES.split())
_REMOVING = frozenset({"uninstall", "remove", "rm", "un", "purge"})
# Programs that do too much for their name to say what a command is about.
_GENERAL = frozenset(
    [
        "apt",
        "aws",
        "bun",
        "cargo",
        "curl",
        "docker",
        "gcloud",
        "gh",
        "git",
        "go",
        "gradle",
        "grep",
        "helm",
        "java",
        "kubectl",
        "make",
        "mvn",
        "node",
        "npm",
        "npx",
        "pip",
        "pnpm",
        "poetry",
        "psql",
        "python",
        "rg",
        "ruby",
        "rustc",
        "sed",
        "ssh",
        "terraform",
        "uv",
        "yarn",
    ]
)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]+")
_NOT_ABOUT_COMMANDS = frozenset({LessonKind.DECISION, LessonKind.OPEN})
_NOT_NAMED = frozenset({LessonKind.DECISION, LessonKind.OPEN, LessonKind.FAILURE})
_NOT_ABOUT_FILES = frozenset({LessonKind.FAILURE, LessonKind.OPEN})
_KINDS = (
    LessonKind.RULE,
    LessonKind.FAILURE,
    LessonKind.GOTCHA,
    LessonKind.DECISION,
    LessonKind.FACT,
    LessonKind.DEAD_END,
    LessonKind.OPEN,
)


@dataclass(slots=True)
class ToolGate:
    """The lessons that agents may be given, by what they are about."""

    lessons: Sequence[KnownLesson]
    by_command: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    by_error: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    by_forbidden: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    by_name: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    by_path: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def rate_command(self, command: str, folder: str = "") -> list[RatedLesson]:
        """Return the lessons about a shell command that is about to run, the surest first."""
        found: dict[int, float] = {}
        keys = read_commands(command)
        for key in keys:
            for place in self.by_command.get(key, ()):
                _keep_best(found, place, self._rate_key(place, key, keys))
        parts = list_parts(command)
        programs = [key for key in keys if " " not in key and key not in _GENERAL]
        _merge(found, self._find_named([*programs, *_DISTINCT.findall(command[:MAX_WRITTEN])]))
        if any(_acts(part) for part in parts):
            _merge(found, self._find_forbidden(command))
            files = [word for part in parts if _acts(part) for word in part[1:] if "/" in word]
            _merge(found, self._find_by_paths(files, folder, _NAMED_FILE))
        return self._order(found)

    def rate_edit(self, files: Sequence[str], written: str, folder: str) -> list[RatedLesson]:
        """Return the lessons about files that are about to be written, and about what is written
        there."""
        found = self._find_by_paths(files, folder, _EDITED)
        _merge(found, self._find_forbidden(written))
        return self._order(found)

    def rate_files(self, files: Sequence[str], folder: str) -> list[RatedLesson]:
        """Return the lessons about files that are about to be read."""
        return self._order(self._find_by_paths(files, folder, _READ))

    def rate_request(self, prompt: str) -> list[RatedLesson]:
        """Return the rules that forbid what a prompt names."""
        return self._order(self._find_forbidden(prompt))

    def rate_failure(self, output: str) -> list[RatedLesson]:
        """Return what is known of the error of a command that failed."""
        found: dict[int, float] = {}
        for signature in find_signatures(output):
            for place in self.by_error.get(signature, ()):
                _keep_best(found, place, _SAME_ERROR)
        return self._order(found)

    def _rate_key(self, place: int, key: str, keys: Sequence[str]) -> float:
        known = self.lessons[place].lesson
        if known.kind in _NOT_ABOUT_COMMANDS:
            return 0.0
        if known.kind is LessonKind.RULE:
            # A rule that names a program alone, such as git, is about some of what it does.
            return _NAMED_COMMAND if " " in key or key == known.commands[0] else 0.0
        return _SAME_COMMAND * compare_commands(known, keys)

    def _find_forbidden(self, text: str) -> dict[int, float]:
        if not self.by_forbidden:
            return {}
        words = find_words(text)
        return {
            place: _FORBIDDEN
            for word in words
            for place in self.by_forbidden.get(word, ())
            if any(find_words(each) <= words for each in self.lessons[place].lesson.avoids)
        }

    def _find_named(self, names: Iterable[str]) -> dict[int, float]:
        """Find lessons that have one of these names, which few others have."""
        found = {}
        for name in names:
            places = self.by_name.get(name.casefold(), ())
            if len(places) <= _FEW:
                found.update(dict.fromkeys(places, _NAMED))
        return found

    def _find_by_paths(
        self, files: Sequence[str], folder: str, ratings: Mapping[str, float]
    ) -> dict[int, float]:
        segments = (part for file in files for part in PurePosixPath(file).parts)
        distinct = filter(_DISTINCT.fullmatch, segments)
        found = dict.fromkeys(self._find_named(distinct), ratings["<"])
        for name in dict.fromkeys(
            name for file in files for name in _list_names(_make_relative(file, folder))
        ):
            for place in self.by_path.get(name, ()):
                if self.lessons[place].lesson.kind not in _NOT_ABOUT_FILES:
                    _keep_best(found, place, ratings[name[0]])
        return found

    def _order(self, found: Mapping[int, float]) -> list[RatedLesson]:
        """Return what is sure enough: the surest first, then by kind, then the newest."""
        rated = [
            RatedLesson(self.lessons[place], score)
            for place, score in found.items()
            if score >= THRESHOLD
        ]
        return sorted(
            rated,
            key=lambda each: (
                -each.score,
                -each.known.lesson.trust,
                _KINDS.index(each.known.lesson.kind),
                -each.known.lesson.at_ms,
            ),
        )


def build_tool_gate(lessons: Sequence[KnownLesson]) -> ToolGate:
    gate = ToolGate(lessons=[known for known in lessons if known.is_active])
    for place, known in enumerate(gate.lessons):
        lesson = known.lesson
        for command in lesson.commands:
            gate.by_command[command].append(place)
        for error in lesson.errors:
            gate.by_error[error].append(place)
        for word in lesson.avoids:
            for stem in find_words(word):
                gate.by_forbidden[stem].append(place)
        if lesson.kind not in _NOT_NAMED:
            about = " ".join((known.text, lesson.situation, *lesson.errors))
            names = {*_DISTINCT.findall(about), *_WORD.findall(about)}
            for name in {name.casefold() for name in names}:
                gate.by_name[name].append(place)
        for path in lesson.paths:
            _add_path(gate.by_path, path.strip("/").casefold(), place, lesson)
    return gate


def _acts(part: Sequence[str]) -> bool:
    """Return whether a command brings something about that a rule may forbid."""
    return part[0] not in _SHOWING and (len(part) < 2 or part[1] not in _REMOVING)


def _add_path(by_path: dict[str, list[int]], path: str, place: int, lesson: Lesson) -> None:
    by_path[f"={path}"].append(place)
    by_path[f"<{path}"].append(place)
    folder, _, name = path.rpartition("/")
    # A rule that was set at one file, such as "tabs, always", is about those beside it too.
    if folder and "." in name and lesson.kind is LessonKind.RULE and lesson.trust is Trust.USER:
        by_path[f"~{folder}"].append(place)


def _list_names(file: str) -> Iterator[str]:
    """Yield the names that a lesson may have for a file, each with how it names it."""
    path = PurePosixPath(file)
    yield f"={file}"
    if path.name != file:
        yield f"={path.name}"
    for folder in path.parents[:_DEEPEST]:
        if folder.name:
            yield f"<{folder}"
            if str(folder) != folder.name:
                yield f"<{folder.name}"
    yield f"~{path.parent}"


def _make_relative(file: str, folder: str) -> str:
    """Return a path below the project's folder, as sessions name it."""
    root = folder.rstrip("/") + "/"
    return file.removeprefix(root).strip("/").casefold()


def compare_commands(lesson: Lesson, keys: Sequence[str]) -> float:
    """Return how alike a command is to that of a lesson, from 0 to 1; 0 if it is another one."""
    own = set(max(lesson.commands, key=len, default="").split())
    alike = (len(own & words) / len(own | words) for words in map(set, map(str.split, keys)))
    best = max(alike, default=0.0)
    return best if best >= _ALIKE else 0.0


def find_words(text: str) -> frozenset[str]:
    """Return the stems of the words of a text; those of a path or an identifier, too."""
    return frozenset(extract_terms(text[:MAX_WRITTEN]))


def _merge(found: dict[int, float], more: Mapping[int, float]) -> None:
    for place, score in more.items():
        _keep_best(found, place, score)


def _keep_best(found: dict[int, float], place: int, score: float) -> None:
    found[place] = max(score, found.get(place, 0.0))
