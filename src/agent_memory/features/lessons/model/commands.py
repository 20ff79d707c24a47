"""Command keys: what a shell command runs, so that lessons about it are found by looking it up.

A command is untrusted input: it is read once, from left to right, and only its start.
"""

import re
from collections.abc import Iterator, Sequence

MAX_READ = 4_000  # characters of a command
MAX_KEYS = 20
_MAX_PARTS = 40
_MAX_WORDS = 5  # of a key
_MAX_WORD = 80
_DEEPEST = 3  # commands inside of commands: bash -c "..."
_TOKEN = re.compile(
    r"""(?P<blank>[^\S\n]+|\\\n)
      | (?P<comment>(?:(?<=\s)|\A)\#[^\n]*)
      | (?P<here><<-?\s*['"]?(?P<tag>\w{1,40})['"]?)
      | (?P<redirect>(?:\d?&?>>?&?|<)[^\S\n]*(?:\d\b|-|[^\s;&|()<>]*))
      | (?P<end>&&|\|\||[;&|\n(){}!](?!\w)|[;|\n()])
      | (?P<word>(?:[^\s;&|()<>'"\\]|\\.|'[^']*'?|"(?:[^"\\]|\\.)*"?|&)+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_QUOTES = re.compile(r"['\"]")
_PLUMBING_NAMES = """
cd echo true false sleep export source . set unset printf pwd head tail wc tee exit : sort uniq
cut tr pushd popd test [ [[ read wait local return break continue shift trap eval alias in esac
case clear which type mkdir touch cat ls date
"""
_PLUMBING = frozenset(_PLUMBING_NAMES.split())
_KEYWORDS_NAMES = """
if then else elif fi while until do done for ! { }
"""
_KEYWORDS = frozenset(_KEYWORDS_NAMES.split())
# Programs that run another one, and their options that take a value.
_WRAPPERS = {
    "sudo": "-u -g", "time": "", "nice": "-n", "nohup": "", "env": "-u", "command": "", "exec": "",
    "builtin": "", "stdbuf": "", "xargs": "-n -I -P -L -d", "timeout": "-k -s", "watch": "-n",
    "npx": "-p", "bunx": "", "uvx": "--from", "doas": "-u", "caffeinate": "", "ionice": "-c",
    "then": "", "do": "", "else": "", "if": "", "while": "", "!": "", "strace": "-e -o",
}  # fmt: skip
_RUNNERS_NAMES = """
uv-run poetry-run pipenv-run hatch-run pdm-run rye-run bundle-exec npm-exec pnpm-exec pnpm-dlx
yarn-dlx yarn-exec conda-run pixi-run mise-exec direnv-exec
"""
_RUNNERS = frozenset(_RUNNERS_NAMES.split())
_RUNNER_NAMES = frozenset(each.partition("-")[0] for each in _RUNNERS)
_RUNNER_VALUES_NAMES = """
--with --extra --group --python -p -n --package --directory
"""
_RUNNER_VALUES = frozenset(_RUNNER_VALUES_NAMES.split())
_INTERPRETERS = re.compile(r"(?:python|pypy)[\d.]*|node|nodejs|ruby|perl|php|deno|bun|bash|sh|zsh")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_SCRIPT = re.compile(r"[\w./@+-]*\.(?:py|js|mjs|cjs|ts|rb|pl|php|sh|bash)")
# Options before the subcommand that take a value.
_VALUES = {
    "git": "-C -c -m", "make": "-C -f -I", "kubectl": "-n --namespace --context", "docker": "-H",
    "npm": "--prefix -w --workspace", "pnpm": "-C -F --filter --dir", "yarn": "--cwd", "go": "-C",
    "docker-compose": "-f -p", "helm": "-n --namespace --kube-context", "cargo": "-C"
    " --manifest-path", "gh": "-R",
    "ssh": "-p -i -l -o -F -J", "psql": "-p -U -d -c -f -P -v", "aws": "--profile --region",
    "pytest": "-k -m -n -p -c -o -W", "curl": "-H -d -X -o -u -A", "mypy": "-p -m", "tox": "-e",
    "docker compose": "-f -p --profile --env-file", "terraform": "", "bazel": "", "gradle": "-p",
}  # fmt: skip
# Programs whose first subcommand has subcommands.
_NESTED_NAMES = """
docker-compose docker-image docker-volume docker-network npm-run pnpm-run yarn-run bun-run gh-pr
gh-issue gh-release gh-run gh-workflow gh-repo aws-s3 git-stash git-remote git-submodule
kubectl-rollout uv-pip cargo-make go-mod helm-repo
"""
_NESTED = frozenset(_NESTED_NAMES.split())


def read_commands(command: str) -> tuple[str, ...]:
    """Return the keys of what a shell command runs, the most specific first.

    Options, assignments and programs that only run another one are left out: "FOO=1 sudo git push
    -f origin main" gives "git push origin main", "git push" and "git".
    """
    keys = dict.fromkeys(
        key for words in list_parts(command) for key in _list_keys(words) if len(key) > 1
    )
    return tuple(sorted(keys, key=lambda key: -key.count(" "))[:MAX_KEYS])


def list_parts(command: str, depth: int = 0) -> list[list[str]]:
    """List what a shell command runs: the words of each part of it, without options."""
    parts = []
    for words in _split(command[:MAX_READ]):
        parts += _read_part(words, depth)
        if len(parts) >= _MAX_PARTS:
            break
    return parts[:_MAX_PARTS]


def _split(command: str) -> Iterator[list[str]]:
    """Yield the words of each simple command."""
    words: list[str] = []
    skip = 0
    tags: list[str] = []
    for token in _TOKEN.finditer(command):
        if token.start() < skip:
            continue
        kind = token.lastgroup
        if kind == "word":
            words.append(token[0])
        elif kind == "here" or token["tag"]:
            tags.append(token["tag"])
        elif kind == "end":
            if words:
                yield words
                words = []
            if token[0] == "\n" and tags:
                skip = _find_end(command, token.end(), tags)
                tags = []
    if words:
        yield words


def _find_end(command: str, at: int, tags: Sequence[str]) -> int:
    """Return where the texts that begin here, each up to a line with its tag, end."""
    for tag in tags:
        end = re.compile(rf"^\s*{re.escape(tag)}$", re.MULTILINE).search(command, at)
        if end is None:
            return len(command)
        at = end.end()
    return at


def _read_part(words: list[str], depth: int) -> list[list[str]]:
    """Return the words that tell what a simple command runs; what a shell is given to run, too."""
    words = _skip_wrappers(words)
    if not words:
        return []
    name = _name_program(words[0])
    if name in _SHELLS and depth < _DEEPEST:
        for place, word in enumerate(words[1:-1], 1):
            if word.startswith("-") and word.endswith("c"):
                return list_parts(_unquote(words[place + 1]), depth + 1)
    if _INTERPRETERS.fullmatch(name):
        rest = words[1:]
        while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-e"):
            rest = rest[1:]
        if rest and rest[0] == "-m" and len(rest) > 1:
            words, name = rest[1:], _unquote(rest[1])
        elif rest and _SCRIPT.fullmatch(rest[0]):
            words, name = rest, rest[0].removeprefix("./")
        else:
            return [[name, *([rest[0]] if rest and rest[0].isalpha() else [])]]
    if name in _PLUMBING or name in _KEYWORDS:
        return []
    return [[name[:_MAX_WORD], *_list_arguments(name, words[1:])]]


def _skip_wrappers(words: list[str]) -> list[str]:
    while words:
        name = _name_program(words[0])
        if _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif name in _WRAPPERS:
            words = _skip_options(words[1:], frozenset(_WRAPPERS[name].split()))
            if name == "timeout" and words:
                words = words[1:]
        elif name in _RUNNER_NAMES and len(words) > 2 and f"{name}-{words[1]}" in _RUNNERS:
            words = _skip_options(words[2:], _RUNNER_VALUES)
        else:
            break
    return words


def _skip_options(words: list[str], valued: frozenset[str]) -> list[str]:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in valued else 1
    return words[at:]


def _name_program(word: str) -> str:
    """Return the name of a program: without its folder, if that says only where it is installed."""
    word = _unquote(word)
    folder, _, name = word.rpartition("/")
    if folder.startswith(("/", "~", "$")) or folder.endswith(("bin", ".")) or not folder:
        return name
    return word.removeprefix("./")


def _list_arguments(name: str, words: Sequence[str]) -> list[str]:
    """Return the words after the program that are no options and no texts."""
    valued = frozenset(_VALUES.get(name, "").split())
    found: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in valued:
            skip = True
        elif word.startswith("-") or _ASSIGNMENT.match(word):
            continue
        elif (plain := _unquote(word)) and not any(sign in plain for sign in " \n\t$`"):
            found.append(plain[:_MAX_WORD])
            if (both := f"{name} {plain}") in _VALUES:
                valued = frozenset(_VALUES[both].split())
        if len(found) >= _MAX_WORDS - 1:
            break
    return found


def _unquote(word: str) -> str:
    return _QUOTES.sub("", word) if "'" in word or '"' in word else word


def _list_keys(words: list[str]) -> list[str]:
    """Return a command in full, with its subcommand, and its name alone."""
    keys = [" ".join(words)]
    if len(words) > 3 and "-".join(words[:2]) in _NESTED:
        keys.append(" ".join(words[:3]))
    return [*keys, " ".join(words[:2]), words[0]]
