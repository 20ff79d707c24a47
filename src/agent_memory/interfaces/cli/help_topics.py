"""`memory help`: one screen on each of the things that people do, and the help of commands."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.kernel.spelling import find_same, suggest_nearest

COMMAND_INDENT = "    "  # a line that begins so can be pasted


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpTopic:
    """A screen of help. `text` fits into 24 lines of 80 columns with its title."""

    name: str
    title: str
    aliases: tuple[str, ...]
    text: str

    @property
    def page(self) -> str:
        return f"{self.title}\n\n{self.text}"

    @property
    def commands(self) -> list[str]:
        lines = self.text.splitlines()
        return [line.strip() for line in lines if line.startswith(COMMAND_INDENT)]


TOPICS = (
    HelpTopic(
        name="setup",
        title="Set up an agent",
        aliases=("agent", "set up", "set up an agent", "start"),
        text="""\
List the agents on this machine, and what is installed for each:
    memory install
Connect one, here Claude Code. See the changes first, if you like:
    memory install claude-code --dry-run
    memory install claude-code
New sessions of the agent are recorded now, and it recalls from them. Check it:
    memory doctor
    memory status
Stop recording for a while, and go on:
    memory pause --for 1h
    memory resume
Look at the settings:
    memory config list

`memory import --from claude-code` takes in what you talked about before.
""",
    ),
    HelpTopic(
        name="find",
        title="Find what was said, decided and learned",
        aliases=("search", "query", "look back"),
        text="""\
Ask in your own words, or give some words of the answer:
    memory recall "which database did we decide on"
    memory recall postgres --in events --since "last week" --limit 5
List what you captured, the newest first:
    memory list --namespace decisions --since yesterday
See what was done, by day and by session:
    memory today
    memory today --date yesterday
    memory log --since "2 weeks" --project .
    memory sessions --limit 5
See what an agent would be given now, and what agents were given:
    memory context "which database do we use"
    memory injections --since today

Every line has an id: `memory show ID` opens it, `memory why ID` explains it.
The beginning of an id is enough. --format json is for programs.
""",
    ),
    HelpTopic(
        name="keep",
        title="Keep a decision, a lesson or anything else",
        aliases=("save", "remember", "store", "add"),
        text="""\
Say what it is, and what to keep in one line:
    memory capture decision "Use PostgreSQL for the data layer"
    memory capture learning "Its jobs need a retry budget" --tags jobs,retry
    memory capture pattern "Return errors as values" --domain user
Take the details from another command:
    date | memory capture progress "First steps" --stdin
Change one by its id, mark it as done, and look at it. (Capturing the same
again changes nothing: here it gives the id.)
    memory edit $(memory -q capture blocker "CI is red") --tags ci
    memory resolve $(memory -q capture blocker "CI is red")
    memory show $(memory -q capture blocker "CI is red")
Decide on what agents noted by themselves:
    memory review

The kinds: decisions, learnings, blockers, progress, reviews, patterns,
retrospective, inception, elicitation, research.
""",
    ),
    HelpTopic(
        name="share",
        title="Share memories with others, or with your other machines",
        aliases=("exchange", "copy"),
        text="""\
Memories of a project are git notes of its repository. In a clone with a remote:
    memory capture decision "Version the API by path"
    memory sync --remote
Others get them with the same command, or only fetch:
    memory sync --fetch
Write memories to a file, and read it on another machine:
    memory export --namespace decisions -o decisions.yaml
    memory import decisions.yaml --dry-run
    memory import decisions.yaml
Copy everything, conversations too:
    memory export --all everything.jsonl.gz
    memory import everything.jsonl.gz --dry-run
Read conversations as a document:
    memory export --conversations --since "last week" talks.md

A team can have a server that its machines exchange events, memories and facts
with: see `memory remote --help` and docs/howto/team.md.
""",
    ),
    HelpTopic(
        name="remove",
        title="Get rid of what should not be there",
        aliases=("get rid of", "delete", "clean up", "erase"),
        text="""\
Hide a memory, and bring it back. (Give its id: here, capture prints it.)
    memory archive $(memory -q capture progress "Try it out")
    memory list --status archived
    memory archive --restore $(memory -q capture progress "Try it out")
Delete it for good. On a terminal, this asks first:
    memory forget $(memory -q capture progress "Made $(date)")
See which memories say the same, before you merge them:
    memory consolidate --dry-run
Record nothing in this folder any more, or again:
    memory off
    memory on
Disconnect an agent. What is recorded stays:
    memory uninstall claude-code

`memory forget --session ID` deletes a conversation, `memory forget --since
"2 hours" --until now` a time. `memory sessions` lists the ids.
""",
    ),
)


@click.command(
    "help",
    cls=Command,
    needs_config=False,
    examples=("memory help", "memory help find", "memory help recall", "memory help config set"),
)
@click.argument("words", nargs=-1, metavar="[TOPIC|COMMAND]...")
@click.pass_context
@invocation
def help_command(run: Invocation, context: click.Context, /, words: tuple[str, ...]) -> None:
    """Explain what people do most, one screen each.

    Without TOPIC, it lists the topics. With the name of a command, it shows the help of that
    command.
    """
    root = context.find_root()
    has_topics = run.program == "memory"
    if not words and not has_topics:
        run.terminal.write(root.get_help() + "\n")
    elif not words:
        _list_topics(run)
    elif has_topics and (topic := _find_topic(" ".join(words))) is not None:
        run.show(
            {
                "topic": topic.name,
                "title": topic.title,
                "text": topic.text,
                "commands": topic.commands,
            },
            lambda: topic.page,
            essential="\n".join(topic.commands),
        )
    elif (found := _find_command(root, words)) is not None:
        run.terminal.write(found.get_help() + "\n")
    else:
        raise click.UsageError(_explain_unknown(" ".join(words), root, with_topics=has_topics))


def _list_topics(run: Invocation) -> None:
    width = max(len(topic.name) for topic in TOPICS)
    lines = [f"  memory help {topic.name:<{width}}  {topic.title}" for topic in TOPICS]
    run.show(
        [{"topic": topic.name, "title": topic.title} for topic in TOPICS],
        lambda: "\n".join(
            (
                "What do you want to do?",
                "",
                *lines,
                "",
                "`memory help COMMAND` explains a command, `memory --help` lists them all.",
            )
        ),
        essential="\n".join(topic.name for topic in TOPICS),
    )


def _find_topic(words: str) -> HelpTopic | None:
    return next((t for t in TOPICS if find_same(words, (t.name, *t.aliases))), None)


def _find_command(context: click.Context, words: Sequence[str]) -> click.Context | None:
    """Return a context of the command with these names, in which to render its help."""
    for word in words:
        group = context.command
        below = group.get_command(context, word) if isinstance(group, click.Group) else None
        if below is None or not word:
            return None
        context = click.Context(below, info_name=word, parent=context)
    return context


def _explain_unknown(words: str, root: click.Context, *, with_topics: bool) -> str:
    group = root.command
    names = [topic.name for topic in TOPICS] if with_topics else []
    known = list(filter(None, group.list_commands(root))) if isinstance(group, click.Group) else []
    near = suggest_nearest(words, [*names, *known], cutoff=0.6)
    listed = f"Topics: {', '.join(names)}. " if names else ""
    path = root.command_path.strip()
    return f"No help on {words[:80]!r}{near or '.'} {listed}`{path} --help` lists the commands."
