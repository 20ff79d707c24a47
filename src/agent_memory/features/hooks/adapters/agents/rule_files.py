"""Rule files: Markdown that an agent reads in every session. Ours is one block, between markers."""

from agent_memory.features.hooks.model.installations import EditedConfig
from agent_memory.kernel.errors import ConfigError

BEGIN = "<!-- agent-memory: begin (written by `memory install`, removed by `memory uninstall`) -->"
END = "<!-- agent-memory: end -->"

RULES = """\
## Memory of earlier sessions

Agent Memory keeps this project's decisions, findings and earlier sessions. Its MCP server is called
`memory`.

- Before you plan a change, look into an error or answer a question about earlier work, call the
  tool `memory_recall` with a short question: the answer may already be known.
- Before a command or an edit that may have failed or been forbidden before, call `memory_recall`
  with it.
- When a decision is made, a cause is found, or the user tells you something to keep, call the
  tool `memory_capture` with a namespace (decisions, patterns, learnings, blockers) and one sentence
  that can be understood without this conversation.
- Do not capture secrets, or what the code already says.
"""


def edit_rules(text: str, rules: str, front: str = "") -> EditedConfig:
    """Make our block the rules, or remove it if they are empty. A new file begins with `front`."""
    span = _find_block(text)
    at = 0 if span is None else span[0] + len(BEGIN)
    newline = "\r\n" if "\r\n" in (text if span is None else text[at : at + 2]) else "\n"
    block = "".join(f"{line}{newline}" for line in (BEGIN, *rules.splitlines(), END))
    if span is None:
        if not rules:
            return EditedConfig(text=text)
        return EditedConfig(text=text + newline + block if text else front + block)
    start, end = span
    if rules:
        return EditedConfig(text=text[:start] + block + text[end:])
    head = text[:start]
    rest = ("" if head == front else head.removesuffix(newline)) + text[end:]
    return EditedConfig(text=rest, bare=not rest)


def has_rules(text: str) -> bool:
    return _find_block(text) is not None


def _find_block(text: str) -> tuple[int, int] | None:
    """Return where our block starts and ends, with its last line break."""
    if BEGIN not in text and END not in text:
        return None
    start, end = text.find(BEGIN), text.find(END)
    if text.count(BEGIN) != 1 or text.count(END) != 1 or end < start:
        raise ConfigError("the marks of Agent Memory's block are not a pair: remove the block")
    end += len(END)
    for line_break in ("\r\n", "\n"):
        if text.startswith(line_break, end):
            return start, end + len(line_break)
    return start, end
