"""What every command shares: how it is declared, configured, rendered, and how it fails."""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import click
import yaml

from agent_memory import config
from agent_memory.interfaces.cli.backend import Backend
from agent_memory.interfaces.cli.terminal import Terminal
from agent_memory.kernel.errors import ConfigError

FORMATS = ("text", "json", "yaml", "markdown", "quiet")
F = TypeVar("F", bound=Callable[..., Any])

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@dataclass
class Invocation:
    """One command being run: who calls, with what settings, and what it may use."""

    program: str
    version: str
    terminal: Terminal
    backend: Backend
    config_file: Path | None = None
    format: str | None = None
    verbose: int = 0
    quiet: bool = False

    @cached_property
    def loaded(self) -> config.LoadedSettings:
        """The caller's settings. Raises ConfigError."""
        call = self.terminal.call
        return config.load(call.environ, file=self.config_file, project_dir=call.cwd)

    def path(self, given: Path) -> Path:
        """A path as the caller meant it: relative to the caller's folder, not the daemon's."""
        return self.terminal.call.cwd / given.expanduser()

    def prepare(self) -> None:
        """Read the settings and let them shape the terminal."""
        cli = self.loaded.settings.cli
        self.terminal.color = self.terminal.color and cli.color
        self.terminal.progress_bars = self.terminal.progress_bars and cli.progress
        self.terminal.pager = self.terminal.pager and cli.pager
        for each in self.loaded.ignored:
            self.terminal.warn(f"note: ignored {each}\n")

    def show(
        self,
        value: Any,
        text: Callable[[], str],
        *,
        page: bool = False,
        essential: str = "",
        markdown: Callable[[], str] | None = None,
    ) -> None:
        """Render in the format asked for. `text` is only made where it is wanted; of it, only
        what is `essential` is shown to who wants quiet. It serves as markdown where that has no
        form of its own."""
        chosen = self.chosen_format
        if chosen == "json":
            rendered = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        elif chosen == "yaml":
            rendered = yaml.dump(
                value, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True
            )
        elif chosen == "quiet":
            rendered = f"{essential}\n" if essential else ""
        else:
            made = markdown if markdown is not None and chosen == "markdown" else text
            rendered = made().rstrip("\n") + "\n"
        if page:
            self.terminal.page(rendered)
        elif rendered:
            self.terminal.write(rendered)

    @property
    def chosen_format(self) -> str:
        return "quiet" if self.quiet else self.format or self._default_format()

    def _default_format(self) -> str:
        try:
            return self.loaded.settings.cli.default_format
        except ConfigError:
            return "text"  # a command that must work with broken settings; others never get here


class Command(click.Command):
    """A command that reads the caller's settings first, unless it must work without them."""

    def __init__(
        self,
        *args: Any,
        needs_config: bool = True,
        own_format: bool = False,  # its --format is not that of what it tells
        **kwargs: Any,
    ) -> None:
        self.examples = kwargs.pop("examples", ())
        kwargs["context_settings"] = HELP | kwargs.get("context_settings", {})
        super().__init__(*args, **kwargs)
        self._needs_config = needs_config
        if not own_format:
            self.params.append(
                click.Option(
                    ["--format", "format_"],
                    type=click.Choice(FORMATS),
                    expose_value=False,
                    callback=_remember("format"),
                    help="Output format.",
                )
            )
        self.params += [
            click.Option(
                ["-c", "--config"],
                type=click.Path(path_type=Path),
                expose_value=False,
                callback=_remember("config_file"),
                help="Config file in place of the user's own.",
            ),
        ]

    def invoke(self, ctx: click.Context) -> Any:
        if self._needs_config:
            _current(ctx).prepare()
        return super().invoke(ctx)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return _help_option(self, ctx)

    def format_epilog(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _examples(self.examples, formatter)


class Group(click.Group):
    """A group of commands, with examples in its help."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.examples = kwargs.pop("examples", ())
        kwargs["context_settings"] = HELP | kwargs.get("context_settings", {})
        super().__init__(*args, **kwargs)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return _help_option(self, ctx)

    def format_epilog(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _examples(self.examples, formatter)


Group.group_class = Group

invocation = click.make_pass_decorator(Invocation)


def global_options(function: F) -> F:
    """The options of every program's root."""
    for option in (
        click.option(
            "-c",
            "--config",
            type=click.Path(path_type=Path),
            expose_value=False,
            callback=_remember("config_file"),
            help="Config file in place of the user's own.",
        ),
        click.option(
            "--format",
            "format_",
            type=click.Choice(FORMATS),
            expose_value=False,
            callback=_remember("format"),
            help="Output format.",
        ),
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


def _remember(attribute: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Keep an option's value on the invocation, so that it counts wherever it stands."""

    def keep(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        if value is not None:
            current = ctx.find_object(Invocation)
            if current is not None:
                setattr(
                    current, attribute, current.path(value) if isinstance(value, Path) else value
                )
        return value

    return keep


def _current(ctx: click.Context) -> Invocation:
    """The runner sets it for every command."""
    return cast(Invocation, ctx.find_object(Invocation))


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        current = _current(ctx)
        current.terminal.write(f"{current.program} {current.version}\n")
        ctx.exit()


def _help_option(command: click.Command, ctx: click.Context) -> click.Option | None:
    """Click's own help option prints to the process's stdout, which is the daemon's."""
    names = command.get_help_option_names(ctx)

    def show(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            _current(ctx).terminal.write(ctx.get_help() + "\n")
            ctx.exit()

    return click.Option(
        names,
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=show,
        help="Show this message and exit.",
    )


def _examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    if not examples:
        return
    with formatter.section("Examples"):
        text = io.StringIO()
        for example in examples:
            text.write(f"{' ' * formatter.current_indent}{example}\n")
        formatter.write(text.getvalue())
