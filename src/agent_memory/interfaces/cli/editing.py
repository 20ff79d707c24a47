"""Edit and write memories in the user's editor."""

from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

import click
from msgspec import structs

from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.operations import MemoryPatch
from agent_memory.interfaces import editor_documents
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.agent_shells import find_agent
from agent_memory.interfaces.cli.commands import Invocation
from agent_memory.interfaces.editor_documents import EditorDocument
from agent_memory.kernel.errors import ContentBlocked, InvalidInput

T = TypeVar("T")


def require_editor(run: Invocation, otherwise: str) -> None:
    """Raise UsageError if no person is there to use an editor."""
    call = run.terminal.call
    if find_agent(call.environ) or not (call.input_is_terminal and call.output_is_terminal):
        raise click.UsageError(f"{otherwise}; on a terminal of your own, your editor opens")


def edit_document(
    run: Invocation, before: EditorDocument, save: Callable[[EditorDocument], T]
) -> T | None:
    """Let the user edit until the text can be saved. Return None if nothing changed. If the user
    gives up, the launcher says where the text is."""
    text = rendered = editor_documents.render(before)
    while True:
        text = run.terminal.edit(text)
        try:
            after = None if text == rendered else editor_documents.parse(text, before)
            return None if after is None or after == before else save(after)
        except (InvalidInput, ContentBlocked) as exc:
            run.terminal.warn(f"{rendering.plain(str(exc))}\n")
            answer = run.terminal.ask("Edit again? [Y/n] ").strip().lower()
            if answer in ("n", "no"):
                raise InvalidInput("nothing is changed") from exc


def to_document(memory: Memory) -> EditorDocument:
    return EditorDocument(
        **{field.name: getattr(memory, field.name) for field in fields(EditorDocument)}
    )


def add_changes(request: MemoryPatch, before: EditorDocument, after: EditorDocument) -> MemoryPatch:
    """Ask for the difference only, so that what others change meanwhile stays."""
    return structs.replace(
        request,
        summary=None if after.summary == before.summary else after.summary,
        content=None if after.content == before.content else after.content,
        spec=None if after.spec == before.spec else after.spec,
        add_tags=tuple(after.tags - before.tags),
        remove_tags=tuple(before.tags - after.tags),
        relates_to=None if after.relates_to == before.relates_to else after.relates_to,
    )
