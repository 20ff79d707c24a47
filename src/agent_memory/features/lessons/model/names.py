"""Names in a lesson: the files, functions and commands that it is about, and words it forbids."""

import re
from collections.abc import Iterable

from agent_memory.features.lessons.model.commands import read_commands
from agent_memory.features.lessons.model.lessons import MAX_NAMES
from agent_memory.kernel.text.sentences import mask_quotations

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
_SPOKEN = re.compile(
    rf"(?<![\w./-])((?:{_PROGRAMS})(?: (?!to\b|in\b|on\b|is\b|and\b|or\b|for\b|the\b|a\b|it\b"
    rf"|not\b|with\b|at"
    r"\b|from\b|as\b|by\b|of\b|has\b|was\b|does\b|here\b|instead\b"
    r"|then\b)[a-z][\w:.-]{1,30})?)(?![\w/-])"
)
_GIT_VERBS = re.compile(
    r"(?<!git )\b(push|commit|rebase|merge|cherry-pick|stash|amend|checkout|tag|force-push"
    r"|squash)(?:ed|es|ing|s)?"
    r"\b"
)
_GIT_WORDS = re.compile(
    r"\b(?:main|master|branch(?:es)?|git|origin|remote|commits?|pull requests?|prs?|upstream"
    r"|history"
    r"|trunk|develop)\b"
)
_FORBIDS = re.compile(
    r"\b(?:never(?: ever)?(?: (?:use|add|import|write|put|call|run|touch|edit|do|install|commit"
    r"|push|introduce))?"
    r"|(?:don'?t|do not|mustn't|must not|shouldn't)(?: ever)? (?:use|add|import|write|put|call"
    r"|run|touch|edit|do"
    r"|install|commit|introduce)"
    r"|stop (?:using|adding|importing|writing|putting|calling|running|touching)|avoid(?: using)?"
    r"|instead of(?: using)?"
    r"|rather than|in place of|no more|get rid of|(?:kick|throw) out|drop|not|no|isn't|without"
    r"|forget) "
    r"(?:a |an |the |any |our |your |more |from |to |up )*((?:[\w.@/+_-]+)(?: [\w.@/+_-]+)?)"
)
_PLAIN = re.compile(r"[^\w.@/+-]+")
_STOPPED = frozenset(
    [
        "a",
        "an",
        "the",
        "it",
        "this",
        "that",
        "them",
        "these",
        "those",
        "any",
        "anything",
        "everything",
        "something",
        "one",
        "ones",
        "in",
        "on",
        "at",
        "to",
        "for",
        "of",
        "and",
        "or",
        "but",
        "so",
        "is",
        "are",
        "was",
        "be",
        "been",
        "do",
        "does",
        "just",
        "only",
        "yet",
        "now",
        "here",
        "there",
        "what",
        "which",
        "who",
        "how",
        "when",
        "where",
        "why",
        "if",
        "then",
        "than",
        "as",
        "from",
        "with",
        "by",
        "my",
        "your",
        "our",
        "their",
        "his",
        "her",
        "its",
        "me",
        "us",
        "you",
        "we",
        "i",
        "they",
        "he",
        "she",
        "not",
        "no",
        "more",
        "less",
        "very",
        "really",
        "ever",
        "even",
        "also",
        "too",
        "please",
        "sure",
        "again",
        "such",
        "same",
        "other",
        "others",
        "all",
        "each",
        "every",
        "both",
        "some",
        "own",
        "way",
        "longer",
        "idea",
        "need",
        "needs",
        "want",
        "like",
        "use",
        "using",
        "used",
        "have",
        "has",
        "had",
        "can",
        "could",
        "should",
        "would",
        "will",
        "may",
        "might",
        "must",
        "get",
        "got",
        "go",
        "going",
        "make",
        "makes",
        "made",
        "take",
        "put",
        "let",
        "see",
        "say",
        "tell",
        "think",
        "know",
        "worry",
        "touch",
        "because",
        "about",
        "into",
        "until",
        "unless",
        "before",
        "after",
        "still",
        "always",
        "never",
        "directly",
        "anywhere",
        "everywhere",
    ]
)


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
        program = ticked.split(" ", 1)[0]
        is_named = " " in ticked or re.fullmatch(_PROGRAMS, program)
        if is_named and re.fullmatch(r"[a-z][\w./-]*", program):
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
        words = [word.strip(".,-/") for word in match[1].split()]
        named = [word for word in words if word and word not in _STOPPED]
        if words and words[0] in named:
            found.setdefault(words[0])
    return tuple(found)[:MAX_NAMES]
