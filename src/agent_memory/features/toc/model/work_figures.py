"""Working: how much was done in a segment, a day or a longer period, in figures."""

from collections.abc import Iterable, Sequence

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.model import commands
from agent_memory.features.toc.model.highlights import MAX_FILES, Work
from agent_memory.features.toc.model.summaries import ChildSummary, Utterance, filter_spoken

BRIDGED_MS = 300_000  # a shorter pause between two segments counts as work
WRITERS = frozenset(
    {"Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch", "replace", "write_file", "edit"}
)


def measure_segment(
    utterances: Sequence[Utterance], *, is_first: bool, is_main: bool = True
) -> Work:
    """Measure a segment. `is_first` says that its session begins with it, `is_main` that it is not
    a subagent's: that counts as no session, and its task as no prompt."""
    if not filter_spoken(utterances):
        return Work()
    times = [utterance.at_ms for utterance in utterances]
    written = (
        utterance.file
        for utterance in utterances
        if utterance.tool_name in WRITERS and is_kept_file(utterance)
    )
    return Work(
        sessions=int(is_main),
        begun=int(is_first and is_main),
        prompts=is_main
        * sum(
            utterance.type is EventType.USER_MESSAGE and utterance.role is EventRole.USER
            for utterance in utterances
        ),
        commits=sum(len(commands.find_commits(utterance)) for utterance in utterances),
        seconds=(max(times) - min(times)) // 1000,
        files=_unite_files([written]),
    )


def measure_day(segments: Sequence[ChildSummary]) -> Work:
    """Add up the segments of a day. Sessions side by side take their time once."""
    seconds, end = 0, 0
    for start, stop in sorted((each.start_ms, each.end_ms) for each in segments):
        begin = max(start, end)
        if end and 0 <= start - end < BRIDGED_MS:
            begin = end
        seconds += max(0, stop - begin)
        end = max(end, stop)
    return Work(
        sessions=len({each.session for each in segments if each.work.sessions}),
        begun=len({each.session for each in segments if each.work.begun}),
        prompts=sum(each.work.prompts for each in segments),
        commits=sum(each.work.commits for each in segments),
        seconds=seconds // 1000,
        files=_unite_files(each.work.files for each in segments),
    )


def add_days(parts: Sequence[Work]) -> Work:
    """Add up the parts of a week, month or year. A session counts where it began."""
    return Work(
        sessions=max(
            sum(part.begun for part in parts), max((part.sessions for part in parts), default=0)
        ),
        begun=sum(part.begun for part in parts),
        prompts=sum(part.prompts for part in parts),
        commits=sum(part.commits for part in parts),
        seconds=sum(part.seconds for part in parts),
        finished=sum(part.finished for part in parts),
        decided=sum(part.decided for part in parts),
        files=_unite_files(part.files for part in parts),
    )


def describe_results(work: Work) -> str:
    """Describe what came of the work in figures, such as "3 tasks finished, 2 decisions"."""
    tasks = _count(str(work.finished), "task")
    decisions = _count(str(work.decided), "decision")
    return ", ".join(filter(None, (f"{tasks} finished" if tasks else "", decisions)))


def describe(work: Work) -> str:
    """Describe the figures, such as "2 sessions, 8 commits, 23 files changed, 2 h 5 min"."""
    files = f"{len(work.files)}{'+' if len(work.files) == MAX_FILES else ''}"
    parts = [
        _count(str(work.sessions), "session"),
        _count(str(work.commits), "commit"),
        _count(files, "file") + " changed" if work.files else "",
        format_duration(work.seconds),
    ]
    return ", ".join(filter(None, parts))


def format_duration(seconds: int) -> str:
    """Format a time in minutes and hours; empty below half a minute."""
    minutes = (seconds + 30) // 60
    hours, rest = divmod(minutes, 60)
    parts = (f"{hours} h" if hours else "", f"{rest} min" if rest else "")
    return " ".join(filter(None, parts))


def is_kept_file(utterance: Utterance) -> bool:
    """Return whether a tool used a file that is no note of the agent to itself, such as a plan."""
    return bool(utterance.file) and not utterance.failed and "/.claude/" not in utterance.file


def _count(number: str, noun: str) -> str:
    return "" if number == "0" else f"{number} {noun if number == '1' else noun + 's'}"


def _unite_files(parts: Iterable[Iterable[str]]) -> tuple[str, ...]:
    names = dict.fromkeys(name for part in parts for name in part)
    return tuple(sorted(names)[:MAX_FILES])
