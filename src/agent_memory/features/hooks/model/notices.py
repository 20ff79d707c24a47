"""Notices about captures, as XML for the prompt."""

from collections.abc import Sequence

from agent_memory.features.hooks.model.signals import Signal
from agent_memory.features.memories.model.memories import Memory
from agent_memory.kernel.text.xml import escape_text, quote_attribute, wrap_element


def render_suggested(signals: Sequence[Signal]) -> str:
    """Render the signals of a prompt that the user may want to capture."""
    lines = []
    for signal in signals:
        lines.append(f"  <signal type={quote_attribute(_get_kind(signal))}>")
        lines.append(f"    <summary>{escape_text(signal.summary)}</summary>")
        if signal.reason:
            lines.append(f"    <reason>{escape_text(signal.reason)}</reason>")
        lines.append(f"    <action>Confirm to capture this {_get_kind(signal)}</action>")
        lines.append("  </signal>")
    return wrap_element("capture_detected", lines)


def render_captured(memories: Sequence[Memory], note: str) -> str:
    """Render the memories that were captured without asking."""
    lines = []
    for memory in memories:
        lines += [
            f"  <memory uri={quote_attribute(memory.urn)}>",
            f"    <summary>{escape_text(memory.summary)}</summary>",
            f"    <captured>{escape_text(note)}{_describe_review(memory)}</captured>",
            "  </memory>",
        ]
    return wrap_element("auto_captured", lines)


def _describe_review(memory: Memory) -> str:
    return "; it awaits the user's review" if memory.is_pending else ""


def _get_kind(signal: Signal) -> str:
    """Return the namespace in the singular: decision for decisions."""
    return signal.namespace.removesuffix("s") if signal.namespace != "progress" else "progress"
