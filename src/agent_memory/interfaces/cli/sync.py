"""`memory sync` and `memory status`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import click
import msgspec

from agent_memory.features.hooks.operations import Decision, check_folder
from agent_memory.features.injections.model.injections import DayCount
from agent_memory.features.injections.operations import InjectionDay
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.lessons.operations import LessonWeek
from agent_memory.features.lessons.services.catalog import LessonCatalog
from agent_memory.features.lessons.services.library import LessonLibrary
from agent_memory.features.memories.model.memories import NAMESPACES, get_family
from agent_memory.features.memories.model.tiers import Tier
from agent_memory.features.memories.operations import SyncAnswer
from agent_memory.features.memories.services.remote_sync import RemoteSync
from agent_memory.features.memories.services.sync import SyncOptions, SyncResult
from agent_memory.features.recall.operations import CountedMemories
from agent_memory.features.recall.services.memory_stats import (
    MemoryCheck,
    MemoryCounts,
    MemoryStatistics,
)
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.capture import DOMAIN_HELP, resolve_domains
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.interfaces.cli.consent import consent_json, describe_consent
from agent_memory.interfaces.cli.index_status import describe_contents, describe_embedding
from agent_memory.interfaces.cli.injections import describe_days
from agent_memory.kernel.ids import ORG, PROJECT, USER

Name = TypeVar("Name", bound=str)

BAR = 20
DAYS = 7  # of injections
# Kept short: `memory show` says it of each memory.
HEAT = "New and often recalled memories are hot. They cool with time."
FEATURES = {
    "core": "by words; no LLM",
    "enhanced": "by words and meaning; no LLM",
    "llm": "with an LLM, for --reason",
}


@click.command(
    cls=Command,
    examples=(
        "memory sync",
        "memory sync --remote",
        "memory sync --fetch --domain project",
        "memory sync --domain user --remote",
    ),
)
@click.option("--remote", "both", is_flag=True, help="Fetch from the remote, then push to it.")
@click.option("--fetch", is_flag=True, help="Fetch from the remote.")
@click.option("--push", is_flag=True, help="Push to the remote.")
@click.option("--domain", default="all", show_default=True, help=f"all, {DOMAIN_HELP}")
@click.option(
    "--force",
    is_flag=True,
    help="Read all notes, even if nothing seems changed, and repair damaged ones.",
)
@invocation
def sync(run: Invocation, both: bool, fetch: bool, push: bool, domain: str, force: bool) -> None:
    """Sync memories with git notes, and with a remote to share them.

    Without options it syncs the store with the git notes of this clone; --remote also exchanges
    them with the remote. Memories are merged one by one, so nothing is lost.
    """
    if both and (fetch or push):
        raise click.UsageError("--remote already includes --fetch and --push")
    options = SyncOptions(fetch=fetch or both, push=push or both, force=force)
    with run.terminal.progress("Syncing", None) as advance:
        outcomes = run.services[RemoteSync].sync_domains(
            domain,
            options,
            run.caller,
            lambda _phase, done, _of: advance(done),
            run.loaded.settings.memories.remote,
        )
    synced = [outcome.synced for outcome in outcomes if outcome.synced is not None]
    failed = [(outcome.place, outcome.failure) for outcome in outcomes if outcome.failure]
    for outcome in outcomes:
        if outcome.alone:
            run.terminal.warn(f"warning: {outcome.alone}\n")
    for done in synced:
        for problem in done.problems:
            where = f"{problem.ref} on {problem.target[:12]}"
            run.terminal.warn(f"warning: {where}: {rendering.plain(problem.reason)}\n")
    if synced or not failed:
        run.show(
            msgspec.to_builtins(SyncAnswer.from_outcomes(outcomes)),
            lambda: "\n".join(map(_render_synced, synced)),
        )
    for place, error in failed[1:]:
        run.terminal.warn(f"error: {place.domain}: {rendering.plain(str(error))}\n")
    if failed:
        raise failed[0][1]


def _render_synced(synced: SyncResult) -> str:
    if synced.unchanged:
        return f"\N{CHECK MARK} {synced.place.domain}: nothing to do"
    parts = [
        f"{count} {what}"
        for count, what in (
            (synced.imported, "imported"),
            (synced.written, "written to notes"),
            (synced.moved, "moved to the current commit"),
        )
        if count
    ]
    parts += ["fetched"] * synced.fetched + ["pushed"] * synced.pushed
    return f"\N{CHECK MARK} {synced.place.domain}: {', '.join(parts)}"


@click.command(
    cls=Command,
    examples=(
        "memory status",
        "memory status --domain project --verbose",
        "memory status --verify",
    ),
)
@click.option("--domain", default="all", show_default=True, help=f"all, {DOMAIN_HELP}")
@click.option("--verbose", is_flag=True, help="Also count by status and by project.")
@click.option(
    "--verify",
    is_flag=True,
    help="Check every memory, its note and its index entry. Exits with 1 on problems.",
)
@invocation
def status(run: Invocation, domain: str, verbose: bool, verify: bool) -> int:
    """Count your memories by kind, age and use.

    The line `Recording` says whether hooks record in this folder, and if not, why.
    """
    stats, domains = run.services[MemoryStatistics], resolve_domains(run, domain)
    recording = run.call(check_folder)
    counted = stats.count(domains)
    verified = None
    if verify:
        with run.terminal.progress("Verifying", counted.total) as advance:
            verified = stats.verify(domains, advance)
    days = run.services[Injections].count_days(run.zone, DAYS)
    week = LessonWeek.count(run.services[LessonCatalog], run.services[LessonLibrary])
    run.show(
        {
            **msgspec.to_builtins(CountedMemories.from_counts(counted)),
            "recording": consent_json(recording),
            "injections": msgspec.to_builtins([InjectionDay.from_count(day) for day in days]),
            "lessons": msgspec.to_builtins(week),
            "verified": None
            if verified is None
            else {
                "memories": verified.memories,
                "notes": verified.notes,
                "problems": list(verified.problems),
            },
        },
        lambda: "\n".join(_as_text(counted, days, week, recording, verified, verbose)),
        essential=str(counted.total),
    )
    return 1 if verified is not None and verified.problems else 0


def _as_text(
    counted: MemoryCounts,
    days: Sequence[DayCount],
    week: LessonWeek,
    recording: Decision,
    verified: MemoryCheck | None,
    verbose: bool,
) -> Iterator[str]:
    families: dict[str, int] = {}
    for name, count in counted.by_domain.items():
        families[get_family(name)] = families.get(get_family(name), 0) + count
    parts = ", ".join(
        f"{families[name]} {name}" for name in (PROJECT, USER, ORG) if name in families
    )
    total = rendering.count(counted.total, "memory", "memories")
    yield rendering.paint("Memory System Status", rendering.HEAD)
    yield "\N{BOX DRAWINGS DOUBLE HORIZONTAL}" * 20
    yield ""
    yield f"Total: {total}" + (f" ({parts})" if parts else "")
    yield from _bars("By Namespace", counted.by_namespace, NAMESPACES)
    yield from _bars("By Tier", counted.by_tier, [tier.value for tier in Tier])
    if counted.by_tier:
        yield f"  {HEAT}"
    if verbose:
        yield from _bars("By Status", counted.by_status, sorted(counted.by_status))
        yield from _bars("By Domain", counted.by_domain, sorted(counted.by_domain))
    yield ""
    last = counted.last_sync_ms
    when = "never" if last is None else rendering.format_with_age(last)
    yield f"Index: {rendering.size(counted.index_bytes)} | Last Sync: {when}"
    yield f"Recall: {FEATURES[counted.features]}"
    yield f"Recording: {describe_consent(recording)}"
    yield f"Injected: {describe_days(days)}"
    if week.given:
        done = f"given {week.given:,}, heeded {week.heeded:,}, repeated {week.repeated:,}"
        yield f"Lessons: {DAYS} days {done}"
    if counted.indexes.vectors_waiting:
        yield f"Meaning: {describe_embedding(counted.indexes)}"
    if counted.contents is not None:
        yield f"Contents: {describe_contents(counted.contents)}"
    if counted.to_review:
        waiting = rendering.count(counted.to_review, "memory", "memories")
        yield f"To review: {waiting} noted automatically: memory review"
    if week.to_review:
        waiting = rendering.count(week.to_review, "rule")
        yield f"To review: {waiting} from your words: memory review"
    if counted.waiting:
        yield f"Notes: {rendering.count(counted.waiting, 'change')} not written yet"
    if verified is not None:
        yield ""
        memories = rendering.count(verified.memories, "memory", "memories")
        yield f"Verified: {memories}, {verified.notes:,} in notes"
        yield from (f"  problem: {rendering.plain(problem)}" for problem in verified.problems)
        if not verified.problems:
            yield "  no problems"


def _bars(title: str, counts: Mapping[Name, int], order: Iterable[Name]) -> Iterator[str]:
    shown = [name for name in order if counts.get(name)]
    if not shown:
        return
    most = max(counts[name] for name in shown)
    width = max(12, *(len(name) for name in shown))
    yield ""
    yield rendering.paint(f"{title}:", rendering.HEAD)
    for name in shown:
        filled = max(1, round(BAR * counts[name] / most))
        bar = "\N{FULL BLOCK}" * filled + "\N{LIGHT SHADE}" * (BAR - filled)
        yield f"  {name:<{width}} {counts[name]:>4} {bar}"
