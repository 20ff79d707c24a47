"""Activities of the Gemini apps, from Google Takeout: a prompt and its answer each, newest first.

Activities have no conversation: those of a day are one session, and pauses cut it into segments.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from html.parser import HTMLParser

from agent_memory.features.hooks.adapters.transcripts.conversations import ConversationBuilder
from agent_memory.features.hooks.model import transcripts
from agent_memory.features.hooks.model.transcripts import RecordKind, TranscriptEntry
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields
from agent_memory.kernel.text.private import strip_private

AGENT = "gemini-apps"
FILES = re.compile(r"My ?Activity\.json")
MAX_HTML_CHARS = 512 << 10  # of one answer; tags that are never closed are slow to read
_PRODUCT = re.compile(r"gemini|bard", re.IGNORECASE)
_ASKED = re.compile(
    r"(?:Prompted with|Asked Gemini|Asked Bard|Prompted|Asked|Said|Answered):? +(.+)", re.DOTALL
)
# Other activities, by the first word of their title.
_OTHERS = re.compile(
    r"(?:Added|Created|Deleted|Edited|Exported|Gave|Pinned|Renamed|Selected|Shared|Updated|Used"
    r"|Viewed|Visited)\b"
)
_ATTACHED = re.compile(r"Attached \d+ files?\.?\Z")
_BREAKS = frozenset(
    ("blockquote", "br", "div", "h1", "h2", "h3", "h4", "hr", "li", "ol", "p", "pre", "tr", "ul")
)


@dataclass(slots=True)
class GeminiAppsExport:
    """A parser of one list of activities."""

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        if "title" not in line or "time" not in line:
            raise InvalidInput("this is no activity of Google: it has no `title` or `time`")
        products = line.value("products")
        names = [line.text("header"), *(products if isinstance(products, list) else ())]
        if not any(isinstance(name, str) and _PRODUCT.search(name) for name in names):
            return None
        answer = "\n\n".join(
            filter(None, (extract_text(item.text("html")) for item in line.blocks("safeHtmlItem")))
        )
        prompt = _extract_prompt(line.text("title"), is_answered=bool(answer))
        at_ms = transcripts.parse_millis(line.value("time"))
        if not prompt:
            return None
        if at_ms is None:
            raise InvalidInput("`time` is no time")
        day = datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
        about = {"agent": AGENT, "project": AGENT}
        talk = ConversationBuilder(
            session=f"{AGENT}-{day}", number=number, about=about, began_ms=at_ms
        )
        record_id = transcripts.fingerprint(str(at_ms), strip_private(prompt))
        talk.add(RecordKind.PROMPT, record_id, transcripts.strip_injected(prompt), at_ms)
        talk.add(RecordKind.ANSWER, record_id, transcripts.strip_injected(answer), at_ms)
        return [entry for entry in talk.entries if entry.text] or None


def _extract_prompt(title: str, *, is_answered: bool) -> str:
    """Return what the user said. In other languages than English, a title with an answer counts."""
    title = _ATTACHED.sub("", title.strip()).strip()
    if asked := _ASKED.fullmatch(title):
        return asked[1].strip()
    return title if is_answered and not _OTHERS.match(title) else ""


def extract_text(html: str) -> str:
    """Return the words of an HTML text."""
    parser = _TextParser()
    parser.feed(html[:MAX_HTML_CHARS])
    parser.close()
    text = "".join(parser.pieces)
    return re.sub(r"\s*\n\s*", "\n", re.sub(r"[^\S\n]+", " ", text)).strip()


class _TextParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag in _BREAKS:
            self.pieces.append("\n- " if tag == "li" else "\n")

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)
