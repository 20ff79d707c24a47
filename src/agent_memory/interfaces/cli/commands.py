"""Base classes, options and rendering shared by all commands."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
import yaml
from click.shell_completion import CompletionItem

from agent_memory import config
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.agent_shells import (
    find_agent,
    find_session,
    name_agent,
    shows_memory,
)
from agent_memory.interfaces.cli.backend import Backend
from agent_memory.interfaces.cli.late_commands import LateCommands, Place, add_of_features
from agent_memory.interfaces.cli.terminal import Terminal
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import ConfigError
from agent_memory.kernel.operations import Operation
from agent_memory.kernel.progress import OnProgress, ignore_progress
from agent_memory.kernel.spelling import find_same, suggest_nearest
from agent_memory.kernel.tracing import Interface
from agent_memory.launcher import environment
from agent_memory.platform import time_zone

if TYPE_CHECKING:  # loading the services takes longer than a command without a daemon runs
    from agent_memory.features.hooks.services.installing import Installing
    from agent_memory.interfaces.agent_answers import AgentReader
    from agent_memory.kernel.composition import Composition

QUIET_PROMPT = "Print only the complete answer."  # of `kontekst`, and of its prompts
FORMATS = ("text", "json", "yaml", "markdown", "quiet")
F = TypeVar("F", bound=Callable[..., Any])
Service = TypeVar("Service")
A = TypeVar("A")

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@dataclass
class Invocation:
    """One call of a command, with its terminal, settings and backend."""

    program: str
    version: str
    terminal: Terminal
    backend: Backend
    config_file: Path | None = None
    format: str | None = None
    verbose: int = 0
    quiet: bool = False
    no_pager: bool = False
    endpoint: str | None = None  # of another daemon
    db_path: Path | None = None  # of `admin`
    log_level: str | None = None
    command: str = ""  # such as `memory recall`

    @property
    def services(self) -> "Composition":
        """The services of this daemon. Raises FeatureUnavailable in a process without one."""
        return self.backend.require_services()

    @property
    def installing(self) -> "Installing":
        """The service that edits the configuration of agents, with or without a daemon."""
        if self.backend.services is not None:
            # Late: it loads services, which takes longer than a command without a daemon runs.
            from agent_memory.features.hooks.services.installing import (  # noqa: PLC0415
                Installing,
            )

            return self.backend.services[Installing]
        return self.backend.require_control().build_installing()

    @property
    def key(self) -> str | None:
        """The key for another daemon."""
        return self.terminal.call.environ.get("MEMORY_KEY")

    @cached_property
    def loaded(self) -> config.LoadedSettings:
        """The caller's settings. Raises ConfigError."""
        call = self.terminal.call
        return config.load(call.environ, file=self.config_file, project_dir=call.cwd)

    @cached_property
    def zone(self) -> tzinfo:
        """The zone of the caller, in which dates are read and shown."""
        return time_zone.find_zone(self.loaded.settings.cli.timezone, self.terminal.call.environ)

    def reject_other_db(self) -> None:
        """Refuse the `--db-path` of `admin`, unless it is the database of this daemon."""
        if self.db_path is not None and self.db_path.resolve() != self.backend.own_db:
            raise click.UsageError("this works only on the running daemon: leave out --db-path")

    def path(self, path: Path) -> Path:
        """Resolve a path against the caller's folder, not the daemon's."""
        return self.terminal.call.cwd / path.expanduser()

    def find_config_file(self) -> Path:
        """Return the file of `-c`, or the user's own. It may not exist."""
        return self.config_file or config.folders(self.terminal.call.environ).config_file

    def prepare(self) -> None:
        """Read the settings and apply those of `cli` to the terminal."""
        cli = self.loaded.settings.cli
        self.terminal.color = self.terminal.color and cli.color
        self.terminal.error_color = self.terminal.error_color and cli.color
        self.terminal.progress_bars = self.terminal.progress_bars and cli.progress
        self.terminal.pager = self.terminal.pager and cli.pager and not self.no_pager
        rendering.zone.set(self.zone)
        for setting in self.loaded.ignored:
            self.terminal.warn(f"note: ignored {setting}\n")

    def show(
        self,
        value: Any,
        text: Callable[[], str],
        *,
        page: bool = False,
        verbatim: bool = False,
        essential: str = "",
        markdown: Callable[[], str] | None = None,
        framed: str = "",
    ) -> None:
        """Write a result in the caller's format.

        `text` is called only if that format needs it, and also for markdown without a form of its
        own. `quiet` writes only `essential`. On a terminal, text is broken into lines that fit; a
        `verbatim` text, such as a diff, stays as it is. It goes to the pager if it is longer than
        the screen; formats for programs do only with `page`.

        In the shell of an agent, what was recorded is made harmless, marked and bounded. A text
        that is so already is `framed`.
        """
        reader = self._find_reader()
        if reader is not None:
            value = reader.fit(value, framed)
            essential = framed or reader.fit(essential)
        if self.chosen_format == "json":
            indent = 2 if reader is None else None
            rendered = json.dumps(value, indent=indent, ensure_ascii=False) + "\n"
        elif self.chosen_format == "yaml":
            rendered = yaml.dump(
                value, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True
            )
        elif self.chosen_format == "quiet":
            rendered = f"{essential}\n" if essential else ""
        else:
            render = markdown if markdown and self.chosen_format == "markdown" else text
            with self.set_screen():
                rendered = render().rstrip("\n")
                rendered = (rendered if verbatim else rendering.arrange(rendered)) + "\n"
            if reader is not None and not framed:
                rendered = reader.frame(rendered)
            page = True
        if page:
            self.terminal.page(rendered)
        elif rendered:
            self.terminal.write(rendered)

    def _find_reader(self) -> "AgentReader | None":
        """Return the agent that reads the output, if the shell is one's."""
        if not find_agent(self.terminal.call.environ):
            return None
        # Late: it loads services, which takes longer than a command without a daemon runs.
        from agent_memory.interfaces.agent_answers import AgentReader  # noqa: PLC0415

        return AgentReader(is_framed=shows_memory(self.command), warn=self.terminal.warn)

    @contextmanager
    def set_screen(self) -> Iterator[None]:
        """Render for the caller's terminal in this block, if the format is for people."""
        terminal, is_text = self.terminal, self.chosen_format == "text"
        on_screen = is_text and terminal.call.output_is_terminal
        screen = rendering.screen.set(terminal.columns if on_screen else 0)
        colored = rendering.is_colored.set(is_text and terminal.color)
        try:
            yield
        finally:
            rendering.screen.reset(screen)
            rendering.is_colored.reset(colored)

    @property
    def chosen_format(self) -> str:
        return "quiet" if self.quiet else self.format or self._default_format()

    def _default_format(self) -> str:
        try:
            return self.loaded.settings.cli.default_format
        except ConfigError:
            return "text"  # only commands that work with broken settings get here

    @property
    def caller(self) -> Caller:
        """The caller, for operations."""
        call = self.terminal.call
        is_person = not find_agent(call.environ)
        return Caller(
            folder=str(call.cwd),
            environ=call.environ,
            interface=Interface.CLI,
            is_person=is_person,
            may_accept=is_person,
            agent=name_agent(call.environ),
            session=find_session(call.environ),
            zone=self.zone,
        )

    def call(
        self,
        operation: Operation[A],
        request: object = None,
        *,
        on_progress: OnProgress = ignore_progress,
    ) -> A:
        """Ask this daemon, which reports progress, or the daemon at `--endpoint`."""
        if self.endpoint is None:
            calls = self.backend.require_calls()
            return calls.call(operation, self.caller, request, on_progress)
        with self.backend.connect_remote(self.endpoint, self.key) as remote:
            return remote.call(operation, request)

    def confirm(self, question: str, *, yes: bool) -> bool:
        """Ask the user, unless `--yes` was given or standard input is not a terminal."""
        return yes or not self.terminal.call.input_is_terminal or self.terminal.confirm(question)


class PathType(click.Path):
    """A path. An empty one is an error, not the current folder: it comes from an unset variable."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


class Choice(click.Choice[str]):
    """A choice that takes its words in any case, in singular or plural, and suggests the nearest
    one for a misspelled word."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(find_same(str(value), self.choices) or value, param, ctx)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        message = super().get_invalid_choice_message(value, ctx)
        nearest = suggest_nearest(str(value).lower(), self.choices, cutoff=0.6)
        return f"{message.removesuffix('.')}{nearest}" if nearest else message


class CommaList(click.ParamType[tuple[str, ...]]):
    """A list separated by commas. Repeated options make one list."""

    name = "a,b"

    def convert(
        self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(filter(None, (word.strip() for word in str(value).split(","))))


class _HelpfulCommand(click.Command):
    """A command or group whose help ends with examples and goes to the caller's terminal."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        self.examples = examples
        kwargs["context_settings"] = HELP | kwargs.get("context_settings", {})
        super().__init__(*args, **kwargs)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        # click's own help option prints to the standard output of this process: the daemon.
        return click.Option(
            self.get_help_option_names(ctx),
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_show_help,
            help="Show this message and exit.",
        )

    def format_epilog(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                indent = " " * formatter.current_indent
                formatter.write("".join(f"{indent}{example}\n" for example in self.examples))


class Command(_HelpfulCommand):
    """A command that reads the caller's settings first, unless it must work without them."""

    def __init__(
        self,
        *args: Any,
        needs_config: bool = True,
        own_format: bool = False,  # its --format is not the output format
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._needs_config = needs_config
        if not own_format:
            self.params.append(click.Option(["--format", "format_"], **_FORMAT))
        self.params.append(click.Option(["-c", "--config"], **_CONFIG))
        self.params.append(click.Option(["--no-pager"], **_NO_PAGER))

    def invoke(self, ctx: click.Context) -> Any:
        current = _current(ctx)
        current.command = ctx.command_path
        if self._needs_config:
            current.prepare()
        current.terminal.begin_waiting("Working")
        return super().invoke(ctx)


class Group(_HelpfulCommand, click.Group):
    """A group of commands.

    `sections` maps the headings of its help to commands that are loaded when they are used, to
    which features add theirs; `unlisted` ones are not shown.
    """

    command_class = Command

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, Place]] | None = None,
        unlisted: Mapping[str, Place] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.sections = add_of_features(self.name or "", sections) if sections else {}
        if self.sections:
            listed = {name: at for places in self.sections.values() for name, at in places.items()}
            self.commands = LateCommands({**listed, **(unlisted or {})})

    def list_commands(self, ctx: click.Context) -> list[str]:
        named = [name for names in self.sections.values() for name in names]
        return [*named, *(name for name in super().list_commands(ctx) if name not in named)]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        if not self.sections:
            return super().shell_complete(ctx, incomplete)
        names = [
            CompletionItem(name, help=place.get_short_help())
            for places in self.sections.values()
            for name, place in places.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)  # first: they matter more than global options
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.sections:
            super().format_commands(ctx, formatter)
            return
        width = max(len(name) for names in self.sections.values() for name in names)
        limit = formatter.width - 6 - width
        for title, places in self.sections.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{name:<{width}}", place.get_short_help(limit))
                        for name, place in places.items()
                    ]
                )


Group.group_class = Group

invocation = click.make_pass_decorator(Invocation)


def global_options(function: F) -> F:
    """Add the options that every program has at its root."""
    for option in (
        click.option("-c", "--config", **_CONFIG),
        click.option(
            environment.OPTION,
            metavar="FOLDER",
            expose_value=False,
            callback=_refuse_home,
            help="The home with settings and memory, instead of your own; comes first.",
        ),
        click.option("--format", "format_", **_FORMAT),
        click.option("--no-pager", **_NO_PAGER),
        click.option(
            "-V",
            "--version",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_version,
            help="Show the version and exit.",
        ),
    ):
        function = option(function)
    return function


def verbosity_options(quiet_help: str) -> Callable[[F], F]:
    """Add `-q` and `-v`."""

    def decorate(function: F) -> F:
        quiet = click.option(
            "-q",
            "--quiet",
            is_flag=True,
            expose_value=False,
            callback=remember("quiet"),
            help=quiet_help,
        )
        verbose = click.option(
            "-v",
            "--verbose",
            count=True,
            expose_value=False,
            callback=remember("verbose"),
            help="Also show the cause of an error.",
        )
        return verbose(quiet(function))

    return decorate


def endpoint_option(function: F) -> F:
    """Add `--endpoint`: the address of another daemon."""
    return click.option(
        "-e",
        "--endpoint",
        metavar="URL",
        expose_value=False,
        callback=remember("endpoint"),
        help="Use the daemon at this gRPC address, such as http://[::1]:50051, with the key in"
        " MEMORY_KEY.",
    )(function)


def log_level_option(function: F) -> F:
    """Add `--log-level`, of the daemon that the command starts."""
    return click.option(
        "-l",
        "--log-level",
        type=Choice(config.LEVELS),
        expose_value=False,
        callback=remember("log_level"),
        help="Lowest level to log.",
    )(function)


def report_control(run: Invocation, act: Callable[[Callable[[str], None]], int]) -> int:
    """Control the daemon, and show what was done in the caller's format."""
    said: list[str] = []
    code = act(said.append)
    if message := "".join(said).strip():
        run.show({"message": message, "exit_code": code}, lambda: message)
    return code


yes_option = click.option(
    "-y",
    "--yes",
    is_flag=True,
    help="Do not ask for confirmation. Without a terminal, it never asks.",
)


def remember(attribute: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Store an option on the invocation, so that it may precede or follow the command's name."""

    def store(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        current = ctx.find_object(Invocation)
        if (value or value == "") and current is not None:  # an empty value is not a missing one
            setattr(current, attribute, current.path(value) if isinstance(value, Path) else value)
        return value

    return store


_FORMAT: dict[str, Any] = {
    "type": Choice(FORMATS),
    "expose_value": False,
    "callback": remember("format"),
    "help": "Output format.",
}
_NO_PAGER: dict[str, Any] = {
    "is_flag": True,
    "expose_value": False,
    "callback": remember("no_pager"),
    "help": "Write long output at once, not to a pager.",
}


def _refuse_home(_ctx: click.Context, _option: click.Parameter, folder: str | None) -> None:
    """Refuse a home that the launcher has not read: it reads the first argument alone."""
    if folder is not None:
        raise click.UsageError(f"{environment.OPTION} must be the first argument, once")


_CONFIG: dict[str, Any] = {
    "type": PathType(),
    "expose_value": False,
    "callback": remember("config_file"),
    "help": "Use this config file instead of your own.",
}


def _current(ctx: click.Context) -> Invocation:
    return cast(Invocation, ctx.find_object(Invocation))  # set by the runner


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        current = _current(ctx)
        current.terminal.write(f"{current.program} {current.version}\n")
        ctx.exit()


def _show_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        _current(ctx).terminal.write(ctx.get_help() + "\n")
        ctx.exit()
