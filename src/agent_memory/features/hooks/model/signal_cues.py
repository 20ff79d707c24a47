"""Cues: phrases which say that something is settled, learned, stuck or done.

Each has the namespace of its statement and a confidence. No pattern has a quantifier inside
another, so each runs in time linear in the text.
"""

import re
from functools import cache
from typing import NamedTuple


class Cue(NamedTuple):
    """A phrase and its meaning.

    `hint` is part of every text that the pattern matches: a search for it is far cheaper. The
    summary starts at the group `say`, or with the statement.
    """

    namespace: str
    confidence: float
    hint: str
    source: str

    @property
    def pattern(self) -> re.Pattern[str]:
        return _compile_source(self.source)

    @property
    def tells(self) -> bool:
        return "(?P<say>" in self.source


@cache
def _compile_source(source: str) -> re.Pattern[str]:
    """Compile a pattern at its first use: compiling all takes longer than some commands run."""
    return re.compile(source, re.IGNORECASE)


_SHORT = {
    "<we>": r"(?:we|i|the team|our team)",
    "<us>": r"(?:we|the team|our team)",
    "<be>": r"(?:'re|'m| are| am| were| was)",
    "<will>": r"(?:'ll| will|'re going to|'m going to| are going to)",
    "<have>": r"(?:'ve| have|'d| had)?",
    "<soon>": r"(?: (?:just|now|finally|already|also|all|both|eventually|ultimately|therefore))?",
    "<still>": r"(?: (?:currently|still|now|completely|totally|all|again|also))?",
    "<lets>": r"(?:\blet'?s |^let us )",  # not "this will let us use"
    "<ask>": r"(?:^|[,;:-] |\b(?:please|and|but|also|so|always|should|must) )",
    "<well>": r"(?:fine|well|ok|okay|good|great|nice|right|wrong|true|easy|hard|nothing)\b",
    "<do>": (
        r"(?:use|run|write|add|prefer|keep|put|commit|push|import|create|call|check|ask|format|name"
        r"|return|include|start|test|validate|log|mock|read|make|update|avoid|document|wrap|pass"
        r"|set|store|edit|modify|delete|touch|change|merge|rebase|force|skip|hardcode|hard-code"
        r"|trust|rely|assume|deploy|release|squash|sign|pin|expose|catch|raise|throw|disable"
        r"|bypass|lint|review|verify|respond|answer|reply)"
    ),
}


def _cue(namespace: str, confidence: float, hint: str, *parts: str) -> Cue:
    pattern = "".join(parts)
    for name, meaning in _SHORT.items():
        pattern = pattern.replace(name, meaning)
    return Cue(namespace, confidence, hint, pattern)


# fmt: off
CUES = (
    # Labels, as in "Decision: ..."
    _cue("decisions", 0.9, "deci",
         r"^(?:final |our |my )?(?:decision|decided)(?: made)? ?: ?(?P<say>)"),
    _cue("learnings", 0.88, "l", r"^(?:lessons? learned|lesson|learned|til|(?:key )?takeaway",
         r"|(?:key )?insight)(?: here)? ?: ?(?P<say>)"),
    _cue("learnings", 0.88, "til", r"^til(?: that)?,? (?P<say>)"),
    _cue("learnings", 0.88, "root cause", r"^root cause ?: ?(?P<say>)"),
    _cue("learnings", 0.8, "gotcha", r"^gotcha ?: ?(?P<say>)"),
    _cue("learnings", 0.84, "remember", r"^(?:always )?remember ?: ?(?P<say>)"),
    _cue("learnings", 0.84, "note to self", r"^note to self ?[:,-]? ?(?P<say>)"),
    _cue("blockers", 0.88, "block", r"^(?:blockers?|blocked) ?: ?(?P<say>)"),
    _cue("progress", 0.75, "progress", r"^progress(?: update)? ?: ?(?P<say>)"),
    _cue("patterns", 0.8, "convention", r"^(?:our |project |team )?convention ?: ?(?P<say>)"),
    # Decisions
    _cue("decisions", 0.88, "decided", r"\b<us><have><soon> decided (?:that |to )(?P<say>)",
         r"(?!in\b|at\b|on\b|yesterday|last\b|earlier|before|already)"),
    _cue("decisions", 0.86, "decided",
         r"\b<us><have><soon> (?P<say>)decided (?:on|against|not to) "),
    _cue("decisions", 0.74, "decided", r"\bi(?:'ve| have)?<soon> decided (?:that |to )(?P<say>)"),
    _cue("decisions", 0.85, "agreed", r"\b<us><have><soon> agreed (?:that |to )(?P<say>)",
         r"(?!disagree)"),
    _cue("decisions", 0.82, "agreed", r"\b<us><have><soon> (?P<say>)agreed (?:on|upon) "),
    _cue("decisions", 0.85, "settled on", r"\b<we><have><soon> (?P<say>)settled on "),
    _cue("decisions", 0.85, "opted", r"\b<we><have><soon> (?P<say>)opted (?:for|to|against) "),
    _cue("decisions", 0.82, "chose", r"\bwe<have><soon> (?P<say>)chosen? "),
    _cue("decisions", 0.84, "decided to", r"^decided to (?P<say>)"),  # in lists of finished work
    _cue("decisions", 0.82, "o",
         r"^(?P<say>)(?:decided (?:on|against|not to)|opted for|settled on|chose) "),
    _cue("decisions", 0.64, "instead of", r"^(?P<say>)used "),
    _cue("decisions", 0.86, "it ",
         r"\bit (?:was|has been|is) (?:decided|agreed) (?:that |to )(?P<say>)"),
    _cue("decisions", 0.88, "decision",
         r"\b(?:the|our|my)(?: final)? decision(?: here)? (?:is|was)(?::|,| that| to)? (?P<say>)",
         r"(?!yours|up to|not|still|pending|open|about|made|hard|unclear|whether|between|based|how"
         r"|what|which|who|where|when|final\b|right|wrong|fine|good|bad)"),
    _cue("decisions", 0.77, "go", r"\b<we><will> (?P<say>)go (?:with|for) "),
    _cue("decisions", 0.78, "going with", r"\b<we><be> (?P<say>)going with "),
    _cue("decisions", 0.8, "went with", r"\bwe<soon> (?P<say>)went with "),
    _cue("decisions", 0.77, "stick", r"\b<we><will> (?P<say>)stick (?:with|to) "),
    _cue("decisions", 0.74, "ing to",
         r"\bwe(?:'re| are)<soon> (?P<say>)(?:switching|moving|migrating) (?:over )?to ",
         r"(?!the next)"),
    _cue("decisions", 0.64, "use", r"\bwe<will> (?P<say>)use "),
    _cue("decisions", 0.72, "let",
         r"<lets>(?P<say>)(?:use|go with|stick with|stick to|settle on|standardi[sz]e on) "),
    _cue("decisions", 0.62, "let", r"<lets>(?P<say>)(?:switch to|migrate to|adopt) "),
    _cue("decisions", 0.55, "let",
         r"<lets>(?P<say>)(?:replace|drop|keep|leave|make|avoid|not <do>) "),
    _cue("decisions", 0.65, "we should",
         r"\bwe should (?P<say>)(?:definitely |always |just |rather )?",
         r"(?:use|go with|choose|pick|switch to|prefer|adopt) "),
    _cue("decisions", 0.55, "instead of", r"^(?P<say>)(?:use|prefer|choose|pick) "),
    # Patterns
    _cue("patterns", 0.86, "from now on", r"\bfrom now on,? ?(?:please |you should |you must )?",
         r"(?:we(?:'ll| will| should)? )?(?P<say>)"),
    _cue("patterns", 0.84, "going forward",
         r"^going forward,? (?:please |(?=always |never )|we(?:'ll| will| should)? )(?P<say>)"),
    _cue("patterns", 0.76, "always", r"^(?:you (?:should|must) )?(?P<say>)always <do> "),
    _cue("patterns", 0.76, "never", r"^(?:you (?:should|must) )?(?P<say>)never <do> "),
    _cue("patterns", 0.76, "we ", r"\bwe (?P<say>)(?:always|never) <do> "),
    _cue("patterns", 0.8, "convention",
         r"\b(?:our|the)(?: \w{1,30})? convention (?:here )?is (?:that |to )(?P<say>)"),
    _cue("patterns", 0.72, "prefer",
         r"\bi(?:'d| would)?(?: really| much| strongly| generally| always)? (?P<say>)prefer ",
         r"(?!if|you\b)"),
    # Learnings
    _cue("learnings", 0.88, "cause",
         r"\b(?P<say>)(?:the|our|its) (?:(?:root|real|actual|underlying|true) ){1,3}cause",
         r"(?: of [^.?!]{1,120}?)? (?:was|is|turned out) ",
         r"(?!unclear|unknown|still|not\b|hard|it\b)"),
    _cue("learnings", 0.85, "turn",
         r"\bit (?:all )?turn(?:s|ed) out,? (?:that )?(?P<say>)(?!<well>|to\b)"),
    _cue("learnings", 0.84, "turns out", r"^turns out,? (?:that )?(?P<say>)(?!<well>)"),
    _cue("learnings", 0.8, "turn", r"\bturn(?:s|ed) out to be (?!<well>)"),
    _cue("learnings", 0.88, "lesson",
         r"\blessons? learned(?:(?:[:,.!-]| is| was| here| that){1,4} ?|$)(?P<say>)"),
    _cue("learnings", 0.85, "lesson",
         r"\b(?:the|my|our|one)(?: \w{1,30})? lesson(?: here| from (?:this|that|it))? (?:is|was)",
         r"(?: that| to|:|,)? (?P<say>)"),
    _cue("learnings", 0.85, "learn",
         r"\b<we><have><soon> learn(?:ed|t)(?: today| here)?(?: the hard way)? that (?P<say>)",
         r"(?!the hard way|lesson|from)"),
    _cue("learnings", 0.84, "key", r"\b(?:the |one |our |my )?key (?:insight|takeaway|finding",
         r"|learning|lesson)(?: here)? (?:is|was)(?: that|:|,)? (?P<say>)"),
    _cue("learnings", 0.8, "out", r"\b<we><have><soon> (?:found|figured) out that (?P<say>)"),
    _cue("learnings", 0.78, "discovered", r"\b<we><have><soon> discovered that (?P<say>)"),
    _cue("learnings", 0.63, "reali", r"\b<we><have><soon> reali[sz]ed that (?P<say>)"),
    _cue("learnings", 0.74, " was",
         r"\b(?P<say>)the (?:actual |real |underlying )?(?:problem|issue|bug|culprit|reason) was ",
         r"(?:that |caused by |due to |actually |in fact )"),
    _cue("learnings", 0.74, " was to",
         r"\b(?P<say>)the (?:actual |real )?(?:fix|solution|workaround) was to "),
    _cue("learnings", 0.62, " because ", r"\b(?:fail(?:s|ed|ing)?|br(?:eaks?|oke)|crash(?:es|ed)?",
         r"|hangs?|hung|(?:didn't|doesn't) work) because "),
    _cue("learnings", 0.62, "ixed by ", r"(?:^|[:,-] )fixed by \w{1,30}ing "),
    _cue("learnings", 0.64, " is",
         r"\b(?P<say>)the (?:actual |real |underlying )(?:problem|issue|bug|culprit|reason) is "),
    _cue("learnings", 0.83, "remember", r"<ask>remember,? that (?P<say>)",
         r"(?!time|bug|file|function|thing|one\b|issue|error|day|test\b|script|problem|weird|old\b)"),
    _cue("learnings", 0.74, "remember", r"<ask>remember,? (?P<say>)we(?:'re|'ve)? "),
    _cue("learnings", 0.8, " that",
         r"<ask>(?:keep in mind|bear in mind|don't forget),? that (?P<say>)"),
    _cue("learnings", 0.82, "for future reference",
         r"^(?:just )?for future reference[,:] (?P<say>)"),
    _cue("learnings", 0.65, "remember", r"<ask>remember to (?P<say>)"),
    # Blockers
    _cue("blockers", 0.86, "blocked",
         r"\b<we><be><still> (?P<say>)blocked (?:by|on|until|because|waiting)\b"),
    _cue("blockers", 0.85, "blocker", r"\b(?P<say>)(?:the|our|my|one|another)",
         r"(?: (?:main|big|biggest|real|only|current|remaining))? blocker(?: here| right now)?",
         r" is (?!gone|fixed|resolved|removed|no )"),
    _cue("blockers", 0.8, "blocking",
         r"\bis(?: currently| still| now)? blocking (?:us|our|everything",
         r"|the (?:release|launch|deploy(?:ment)?|rollout|migration))\b"),
    _cue("blockers", 0.82, "we can",
         r"\bwe (?P<say>)(?:can't|cannot|can not) (?:ship|release|merge",
         r"|deploy|proceed|continue|move on|go live|launch|upgrade|start)(?: [\w' -]{1,60})?",
         r" (?:until|because|without|unless|as long as)\b"),
    _cue("blockers", 0.66, "blocked", r"\b(?:is|are)<still> blocked (?:by|on)\b"),
    _cue("blockers", 0.62, "waiting", r"\bwe<be><still> (?P<say>)waiting (?:on|for) "),
    _cue("blockers", 0.6, "stuck", r"\b<we><be><still> (?P<say>)stuck (?:on|with|because|at)\b"),
    # Progress
    _cue("progress", 0.72, "we",
         r"\bwe(?:'ve| have)?<soon> (?P<say>)(?:finished|completed|shipped|released|rolled out) ",
         r"(?!it\b|this\b|that\b)"),
    _cue("progress", 0.62, "ed ", r"\b(?:i|we)(?:'ve| have)<soon> (?P<say>)(?:finished|completed",
         r"|shipped|released|deployed|implemented|migrated|merged) "),
    _cue("progress", 0.5, "pass", r"\ball (?:the |\d{1,9} )?tests (?:now )?pass(?:ing)?\b"),
)
# fmt: on
