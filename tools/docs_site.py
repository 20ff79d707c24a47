"""MkDocs hook: bring the whole repository's documentation into the site, with its links checked.

- README, CONTRIBUTING, SECURITY and CHANGELOG become pages.
- A folder in `nav` stands for all of its pages.
- A link to a file that is not a page must exist; the site shows its text alone.
- A list may follow a paragraph without a blank line, as on GitHub.
- A page that loads something from another host is reported.
- A decision says in its lines 2 and 3 what was decided and what it costs, or is reported.
"""

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = PurePosixPath("docs")
BESIDE = {
    PurePosixPath(f"{name}.md"): PurePosixPath(f"{name.lower()}.md")
    for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")
}
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^()\s]+)\)")
ITEM = re.compile(r"[-*+] |1\. ")  # what may interrupt a paragraph
PARAGRAPH = re.compile(r"(?!\s|$|[-*+] |\d+\. )")
FETCH = re.compile(r"""<(?:script|link|img)\b[^>]*(?:src|href)=["'](?:https?:)?//[^>]*>""")
DECISION = re.compile(r"decisions/\d{4}-")
SUMMARY = re.compile(r"# .+\n\*\*Decision:\*\* .+\n\*\*Cost:\*\* .+\n\n")
log = logging.getLogger("mkdocs.hooks.docs_site")


def on_config(config: MkDocsConfig) -> None:
    if config.nav:
        config.nav = [_expand(entry, Path(config.docs_dir)) for entry in config.nav]


def _expand(entry: Any, docs: Path) -> Any:
    """Replace the folder in `{title: "folder/"}` by its pages."""
    if not isinstance(entry, dict):
        return entry
    return {
        title: sorted(str(page.relative_to(docs)) for page in (docs / below).glob("*.md"))
        if isinstance(below, str) and below.endswith("/")
        else below
        for title, below in entry.items()
    }


def on_files(files: Files, config: MkDocsConfig) -> None:
    for source, target in BESIDE.items():
        files.append(File.generated(config, str(target), content=(ROOT / source).read_text()))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    target = PurePosixPath(page.file.src_uri)
    if DECISION.match(page.file.src_uri) and not SUMMARY.match(markdown):
        log.warning("%s: **Decision:** and **Cost:** are not in lines 2 and 3", target)
    source = next((source for source, to in BESIDE.items() if to == target), DOCS / target)
    return "\n".join(_render_lines(markdown, source, target))


def on_post_page(output: str, page: Page, **_: Any) -> None:
    for tag in FETCH.findall(output):
        log.warning("%s: loads from another host: %s", page.file.src_uri, tag)


def _render_lines(markdown: str, source: PurePosixPath, target: PurePosixPath) -> Iterator[str]:
    """Yield the lines of a page as the site needs them, code as it is."""
    fenced = False
    before = ""
    for line in markdown.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if fenced or line.startswith("    "):
            yield line
        else:
            if ITEM.match(line) and PARAGRAPH.match(before):
                yield ""
            yield LINK.sub(lambda link: _relink(link, source, target), line)
        before = line


def _relink(link: re.Match[str], source: PurePosixPath, target: PurePosixPath) -> str:
    """Return a link of the page `source` as it reads on the page `target` of the site."""
    mark, text, address = link.groups()
    path, hash_, anchor = address.partition("#")
    if not path or ":" in path or path.startswith("/"):
        return link[0]  # MkDocs checks anchors and refuses absolute paths
    file = PurePosixPath(os.path.normpath(source.parent / path))
    if file in BESIDE:
        to = BESIDE[file]
    elif file.is_relative_to(DOCS) and file.suffix:
        to = file.relative_to(DOCS)
    else:
        if not (ROOT / file).exists():
            log.warning("%s: there is no %s", source, file)
        return text
    relative = os.path.relpath(to, target.parent)
    return f"{mark}[{text}]({relative}{hash_}{anchor})"
