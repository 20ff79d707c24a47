"""HTML as readable text. A hostile page can make it slow: call it in a process with a timeout."""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_SKIPPED = frozenset(
    {"canvas", "iframe", "noscript", "object", "script", "select", "style", "svg", "template"}
)
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "header", "hr", "main", "nav", "ol", "p", "pre",
    "section", "summary", "table", "tr", "ul",
})  # fmt: skip
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BLANKS = re.compile(r"[ \t\n\r\f\v\xa0]+")
_LINES = re.compile(r"\n{3,}")
_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)


def render_text(markup: str, url: str) -> str:
    """Render the title and the text of a page, with the targets of its links."""
    parser = _Reader(url)
    parser.feed(markup)
    parser.close()
    return parser.text()


class _Reader(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self._url = url
        self._parts: list[str] = []
        self._title: list[str] = []
        self._skipping = 0
        self._in_title = False
        self._pre = 0
        self._link = ""
        self._link_start = 0  # number of parts before the link

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED:
            self._skipping += 1
        elif tag == "title":
            self._in_title = not self._title
        elif tag in _HEADINGS:
            self._add(f"\n\n{_HEADINGS[tag]} ")
        elif tag == "li":
            self._add("\n- ")
        elif tag == "br":
            self._add("\n")
        elif tag in ("td", "th"):
            self._add(" | ")
        elif tag in _BLOCKS:
            self._add("\n\n" if tag != "tr" else "\n")
            self._pre += tag == "pre"
        elif tag == "a":
            self._link = next((value or "" for name, value in attrs if name == "href"), "")
            self._link_start = len(self._parts)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _SKIPPED:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in _SKIPPED:
            self._skipping = max(0, self._skipping - 1)
        elif tag == "title":
            self._in_title = False
        elif tag in _HEADINGS or tag in _BLOCKS:
            self._add("\n\n" if tag != "tr" else "")
            self._pre = max(0, self._pre - (tag == "pre"))
        elif tag == "a":
            self._end_link()

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self._title.append(data)
        elif self._pre:
            self._add(data)
        else:
            self._add(_BLANKS.sub(" ", data))

    def text(self) -> str:
        title = " ".join("".join(self._title).split())
        lines = [
            line if line.startswith("  ") else line.removeprefix(" ")
            for line in _TRAILING.sub("", "".join(self._parts)).split("\n")
        ]
        body = _LINES.sub("\n\n", "\n".join(lines)).strip()
        return f"{title}\n\n{body}" if title else body

    def _add(self, text: str) -> None:
        if not self._skipping:
            self._parts.append(text)

    def _end_link(self) -> None:
        text = "".join(self._parts[self._link_start :]).strip()
        link, self._link = self._link, ""
        if not text or not link or link.startswith("#"):
            return
        try:
            target = urljoin(self._url, link)
        except ValueError:
            return
        if target.startswith(("http://", "https://")) and target != text:
            self._add(f" ({target})")
