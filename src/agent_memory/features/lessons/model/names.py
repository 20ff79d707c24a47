"""Names in a lesson: the files, functions and commands that it is about, and words it forbids."""

import re
from collections.abc import Iterable

from agent_memory.features.lessons.model.commands import read_commands
from agent_memory.features.lessons.model.lessons import MAX_NAMES
from agent_memory.kernel.text.analysis import extract_terms
from agent_memory.kernel.text.sentences import mask_quotations
from agent_memory.kernel.text.terms import stem
from agent_memory.kernel.text.vocabulary import COMMON, GRAMMAR

_PATH = re.compile(
    r"(?<![\w/.@:-])(?:\.{1,2}/|~/"
    r"|/)?(?:[\w@.+-]{1,80}/){1,12}(?:[\w@+*-]{1,80}(?:\.\w{1,10}){0,3})?"
    r"|(?<![\w/.@:-])[\w+-]{1,80}(?:\.[\w+-]{1,40}){0,2}\.(?:py|pyi|js|jsx|ts|tsx|mjs|cjs|rs|go"
    r"|java|kt|kts|c|cc"
    r"|cpp|h|hpp|cs|rb|php|ex|exs|swift|scala|sh|sql|ya?ml|toml|json|jsonc|lock|md|css|scss|html"
    r"|vue"
    r"|svelte|tf|cfg|ini|env|txt|csv|proto|ipynb|xml|gradle|properties)(?![\w-])"
    r"|(?<![\w/.@:-])(?:Dockerfile|Makefile|Justfile|Gemfile|Procfile|Vagrantfile|\.env[\w.]{0,20}"
    r"|\.git\w{1,20})(?![\w-])"
)
_MODULE = re.compile(
    r"\b[a-z]\w*(?:\(\)|_\w+)? (?:in|of|from) ([a-z][a-z0-9_]{3,40})(?=[ ,.;:?!-]|$)"
    r"|\b([a-z][a-z0-9_]{3,40}) (?:module|package|crate|suite|service|app|library|repo|folder)\b"
)
_CALLED = re.compile(r"\w\(\)|_")
_CODE = re.compile(
    r"\b[A-Za-z]\w*\(\)|\b[a-z]\w*_\w+\b|\b[a-z]+[A-Z]\w*\b|\b(?:[A-Z][a-z0-9]+){2,6}\b"
    r"|`[^`\n]{2,60}`"
    r"|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b"
)
_TICKED = re.compile(r"`([^`\n]{2,120})`")
_PROGRAMS = (
    "git|npm|npx|pnpm|yarn|bun|pip|pip3|poetry|uv|make|docker|kubectl|helm|terraform|ansible"
    "|pytest|tox|nox"
    "|black|ruff|flake8|isort|mypy|cargo|go|mvn|gradle|psql|mysql|redis-cli|ssh|scp|rsync|curl"
    "|wget|python|node"
    "|eslint|prettier|tsc|jest|vitest|rails|rake|bundle|composer|php|dotnet|mix|brew|apt|apt-get"
    "|systemctl|rm"
    "|sed|grep|rg|alembic|prisma|flyway|conda|mamba|sbatch|srun|gh|glab|aws|gcloud|az|nix|just"
    "|task|bazel|cmake"
    "|ctest|ninja|pyinstaller|sudo|django-admin|celery|hg|svn|deno|turbo|nx|vite|webpack"
)
_SUBCOMMANDS = (
    "push|pull|commit|install|add|run|test|tests|build|up|down|exec|format|check|deploy|migrate"
    "|rebase"
    "|merge|reset|checkout|stash|clean|apply|plan|destroy|publish|start|stop|restart|compose"
    "|upgrade"
    "|update|sync|lock|lint|fmt|clippy|bench|tag|fetch|clone|cherry-pick|revert|amend|ci|dlx"
    "|audit|init"
    "|generate|release|pr|issue|buildx|prune|rm|kill|logs|rollout|delete|dump|shell|seed|login"
    "|remove"
)
_SPOKEN = re.compile(
    rf"(?<![\w./-])((?:{_PROGRAMS})(?: (?:{_SUBCOMMANDS})(?![\w-]))?)(?![\w/-]|\.\w)"
)
_RUNS = re.compile(
    rf"(?:[A-Z_]+=\S+ )*(?:(?:{_PROGRAMS})(?![\w-])|(?:\./|[\w-]+/)[\w./-]+\.(?:sh|py|js|mjs)\b)"
)
_GIT_VERBS = re.compile(
    r"(?<!git )(?<![\w-])(push|commit|rebase|merge|cherry-pick|stash|amend|checkout|tag|force-push"
    r"|squash)(?:t?ed|es|t?ing|s)?"
    r"\b"
)
_GIT_WORDS = re.compile(
    r"\b(?:main|master|branch(?:es)?|git|origin|remote|commits?|pull requests?|prs?|upstream"
    r"|history"
    r"|trunk|develop)\b"
)
_ARTICLES = r"(?:a |an |the |any |our |your |more |another |up )*"
_NAME = r"([\w@][\w.@/+-]{1,40})"
_FORBIDS = re.compile(
    r"(?:\b(?:never(?: ever)?|don'?t|do not|mustn't|must not|shouldn't|stop|avoid|no longer"
    r"|not)(?: ever)?"
    r" (?:us(?:e|ing)|add(?:ing)?|import(?:ing)?|install(?:ing)?|introduc(?:e|ing)|call(?:ing)?"
    r"|tak(?:e|ing)"
    r"|go(?:ing)? (?:with|back to)|writ(?:e|ing) to)"
    r"|\bavoid|\b(?:instead of|rather than|in place of)(?: using)?|\b(?:get rid of|kick out"
    r"|throw out|ban)"
    r"|(?:, |\()(?:and )?(?:not|never)|(?:^|[,;:.\u2014-] )(?:and )?no(?: more)?) "
    + _ARTICLES
    + _NAME
    + r"(?:(?:,? (?:and|or|nor) | )"
    + _NAME
    + r")?"
    r"|\b" + _NAME + r"(?: thing| stuff)? is (?:dead|gone|banned|forbidden|deprecated|history)\b"
)
_USED = re.compile(  # whose object is forbidden, also where it is a common word: "never use moment"
    r"\b(?:(?:never(?: ever)?|don'?t|do not|stop|avoid|no longer)(?: ever)? us(?:e|ing)"
    r"|why (?:are|do|did) (?:you|u)(?: still)? us(?:e|ing)"
    r"|(?:switch|migrate)(?:s|d|ed|ing)? (?:away )?from) "
    + _ARTICLES
    + _NAME
    + r"(?= (?:in|for|here|any|as|at|on|again|please|to)\b| ?[.,;:!?)\u2014-](?!\w)|$)"
)
_STOPPED = GRAMMAR | COMMON | frozenset(("per", "free", "second", "idea", "same", "rest", "work"))
_GRAMMAR_TERMS = frozenset(map(stem, GRAMMAR))


def find_terms(text: str) -> frozenset[str]:
    """Return the terms of a text that say something: two rules that both have one which the other
    lacks are about different things."""
    return frozenset(extract_terms(text)) - _GRAMMAR_TERMS


def find_paths(text: str, files: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the files, folders and modules that a text names, then `files`."""
    found = dict.fromkeys(each.rstrip(".") for each in _PATH.findall(text) if "://" not in each)
    for match in _MODULE.finditer(text):
        name = match[1] or match[2]
        if (match[2] or _CALLED.search(match[0])) and name not in _STOPPED:
            found.setdefault(name)
    for file in files:
        found.setdefault(file)
    return tuple(name for name in found if len(name) > 2)[:MAX_NAMES]


def find_code(text: str) -> tuple[str, ...]:
    """Return the names of functions, classes and the like in a text."""
    return tuple(dict.fromkeys(each.strip("`") for each in _CODE.findall(text)))[:MAX_NAMES]


def find_commands(text: str) -> tuple[str, ...]:
    """Return the keys of the commands that a text names: `make client`, "push to main"."""
    found: dict[str, None] = {}
    for ticked in _TICKED.findall(text):
        if _RUNS.match(ticked):
            found.update(dict.fromkeys(read_commands(ticked)))
    view = mask_quotations(text).lower()
    for spoken in _SPOKEN.findall(view):
        found.update(dict.fromkeys(_list_spoken(spoken)))
    if _GIT_WORDS.search(view):
        for verb in _GIT_VERBS.findall(view):
            found.setdefault(f"git {'push' if verb == 'force-push' else verb}")
    return tuple(found)[:MAX_NAMES]


def _list_spoken(spoken: str) -> tuple[str, ...]:
    program, _, rest = spoken.partition(" ")
    if (
        program in ("go", "make", "just", "task", "node", "python", "rm", "sed", "bun", "az")
        and not rest
    ):
        return ()
    return (spoken, program) if rest else (program,)


def find_forbidden(text: str) -> tuple[str, ...]:
    """Return the words that a sentence forbids: "uuid7, not uuid4" gives "uuid4"."""
    view = text.replace("\u2019", "'").replace("`", "").lower()
    found: dict[str, None] = {}
    for match in _FORBIDS.finditer(view):
        joined = " and " in match[0] or " or " in match[0] or " nor " in match[0]
        for word in (match[1], match[2] if joined else None, match[3]):
            name = (word or "").strip(".,-/")
            if len(name) > 1 and name not in _STOPPED and not name.endswith(("ly", "ing")):
                found.setdefault(name)
    for word in _USED.findall(view):
        if (name := word.strip(".,-/")) not in GRAMMAR:
            found.setdefault(name)
    return tuple(found)[:MAX_NAMES]
