"""The cues of speech acts: what a sentence says when it decides, finds out or finishes something.

A mention is a sign of an act. A phrase is a surer one, has a confidence, and says where the
statement begins: at the group `say`, or with the sentence. Cues are for one line with straight
apostrophes and single blanks. In phrases no quantifier is inside another, so each is searched in
time linear in the text.
"""

import re
from enum import Enum, auto
from typing import NamedTuple

from agent_memory.kernel.text.cues import Cue


class Act(Enum):
    """What a sentence does."""

    DECISION = auto()
    RULE = auto()  # for all work from now on
    CAUSE = auto()
    FINDING = auto()
    OPEN = auto()  # left to do
    BLOCKER = auto()
    FAILURE = auto()
    PROGRESS = auto()
    STATE = auto()  # a measurement, such as passing tests
    CORRECTION = auto()  # of something said before
    COMPLAINT = auto()  # of a user: it does not work


class Phrase(NamedTuple):
    act: Act
    confidence: float
    cue: Cue

    @property
    def says(self) -> bool:
        return "(?P<say>" in self.cue.source


_PAST = """
accepted added adopted applied automated bumped centralized changed cleaned closed committed
completed configured converted corrected covered created deleted deployed documented dropped
enabled enriched exposed extended extracted filed finished fixed force-added generated hardened
implemented improved included increased installed integrated introduced landed launched limited
merged migrated moved opened optimized patched ported published pulled pushed rebased rebuilt
redesigned reduced refactored registered released removed renamed reordered reorganized
replaced resolved restored restructured reverted rewired rewritten rewrote rolled scheduled
secured shipped simplified solved split stabilized standardized streamlined switched synced
tagged tightened unified updated upgraded uploaded validated verified wired wrapped wrote
"""
DONE_VERBS = "|".join(_PAST.split())
WILL = "(?:i'll|i will|we'll|let's) "

HEDGE = Cue(
    r"\b(?-i:may)\b|\bappears?\b(?! in)|\b(?:might|maybe|perhaps|probably|likely|possibly"
    r"|presumably|seems|seem|seemed|looks like|look like|i think|i believe|i guess|i suspect"
    r"|should work|should be|should pass|should fix|should now (?:work|be|pass)|could be|not sure"
    r"|unclear)\b"
)
MENTIONS = {
    Act.CORRECTION: Cue(
        r"\b(?:actually|in fact|correction|false alarm|was wrong|misread|mistaken|after all"
        r"|contrary to|scratch that|not the (?:cause|problem|reason|issue)|is not it|isn't it"
        r"|wait,? no|on second thought|rolled back|reverted)\b"
        r"|(?-i:\bnot (?:the )?[\w.%-]{1,40}, (?:but|it|it's)\b"
        r"|\bit's \S{1,40}(?: \w{1,40})?, not\b"
        r"|\b(?:IS|ARE|WAS|DOES|DID|NOT|CAN)\b(?= [a-z]))"  # written so for emphasis
    ),
    Act.COMPLAINT: Cue(
        r"\b(?:still (?:crash|fail|broken|wrong|get|see|happen|not|the same)\w*"
        r"|(?:does|did)(?:n't| not) (?:work|help|fix)|not fixed)\b"
    ),
    Act.STATE: Cue(
        r"\b(?:all|\d[\d,]*) (?:\S+ ){0,4}?"
        r"(?:tests?|specs?|examples?|suites?|checks?|doctests|assertions)\b"
        r"|\b(?:\d[\d,]*|no|zero) (?:\w+ )?"
        r"(?:failures?|errors?|warnings?|issues|passed|passing|failing)\b"
        r"|\b(?:tests?|suite|build|credo|lint(?:er|ing)?|type.?checks?|mypy|ruff|eslint|clippy|ci"
        r"|compilation)\b[^.]{0,30}\b(?:pass(?:es|ed|ing)?|green|clean|succeed(?:s|ed)?)\b"
        r"|\bclean(?:ly)? (?:compile|build)|compiles? clean"
        r"|\b\d+ of \d+ (?:\w+ )?(?:pass|fail)"
    ),
    Act.FAILURE: Cue(
        r"\b(?:fail|fails|failed|failing|crashes|crashed|crashing|broken|breaks|is missing"
        r"|are missing|not found|undefined|unable|won't|isn't working|does not work|not working"
        r"|doesn't (?:work|compile|exist|build|start)|timed out|times out|refused|denied|rejected"
        r"|regressed|regression)\b"
    ),
    Act.PROGRESS: Cue(
        rf"\b(?:{DONE_VERBS}|done|complete|works? now|is gone|no longer|successfully|in place"
        r"|is live|up and running|down from|instead of \d[\d.,]*"
        r"|now (?:work|support|handle|use|return|have|show|run|is|are)|(?:is|are) now"
        r"|(?<!right )now (?!this|its|always|as|sometimes|less)[a-z]+s)\b"
    ),
    Act.CAUSE: Cue(
        r"\b(?:(?:root )?causes? (?:is|was|were|are|of)|turns? out|turned out|discovered"
        r"|caused by|(?:the|a) (?:\w+ )?(?:issue|problem|bug|culprit|reason) "
        r"(?:is|was|where|comes|came))\b"
    ),
    Act.OPEN: Cue(
        r"\b(?:todo|remaining|remain|remains|still to|still needs?|still open|still missing"
        r"|left to do|follow-up|followup|not yet|out of scope|next steps?|next task|next up"
        r"|deferred|postponed|pending|blocked on|blocked by|for later|future work|known gap"
        r"|not done|not implemented|isn't implemented|not tested|not covered|open question"
        r"|up to you|your call|your decision|waiting for)\b"
        r"|\byou(?: still|'ll)? (?:need|have|should|must|can decide|may want)\b"
    ),
    Act.DECISION: Cue(
        r"\b(?:decided|decision|decide|chose|chosen|opted|settled on|agreed|go with|going with"
        rf"|went with|by design|trade-off|tradeoff|stick with|sticking with)\b"
        rf"|{WILL}(?:use|keep|go|stick|store|avoid)\b"
        r"|^(?:used|designed|picked|structured|modell?ed)\b|\brather than\b(?! \d)"
        r"|\b(?:use[ds]?|using|keep|kept|set|put|take|make|stored?|call(?:ed|s)?"
        r"|writ(?:e|es|ten)|prefer\w*|with|via)\b.{1,80}\binstead of\b(?! \d)"
    ),
    Act.RULE: Cue(r"\b(?:prefer|preferred|from now on|must (?:not|never|always)|always use)\b"),
    Act.FINDING: Cue(
        r"\b(?:because|caused by|due to|bug (?:where|in|that)|doesn't|does not|don't|isn't|is not"
        r"|aren't|wasn't|can't|cannot|only (?:works?|accepts?|in|if|when|supports?)|requires?"
        r"|expects?|depends? on|means|despite|although|even though|was force-added|was never"
        r"|was missing|was wrong|was stale|were missing|comes? from|goes through|prevents?"
        r"|overrides?|shadows?|conflicts with|learned|lesson|gotcha)\b"
        r"|\bneeds?\b(?! to (?:compile|run|test)\b)"
        r"|\b(?:the|a|only) (?:\w+ )?(?:issue|problem|bug|culprit|reason|catch|key|trick|fix"
        r"|conflict|difference|limitation|error|failure) (?:is|was|here|comes|came|lies)\b"
        r"|\bknown (?:\w+ ){0,2}(?:bug|issue|limitation|conflict)\b"
        r"|\b(?:is|are|was|were) (?:(?:already|actually|still) )?"
        r"(?:tracked|ignored|gitignored|stored|served|built|loaded|called|used|set|defined|cached"
        r"|shared|generated|reported|dropped|lost|skipped|written|read|sent|kept|hard-?coded"
        r"|deprecated|unused|limited|blocked|locked|shadowed|overridden|mapped)\b"
    ),
}

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
# fmt: off
_PHRASES = {
    Act.DECISION: (
        (0.9, r"^(?:final |our |my )?(?:decision|decided)(?: made)? ?: ?(?P<say>)"),
        (0.88, (r"\b<us><have><soon> decided (?:that |to )(?P<say>)(?!in\b|at\b|on\b|yesterday"
               r"|last\b|earlier|before|already)")),
        (0.86, r"\b<us><have><soon> (?P<say>)decided (?:on|against|not to) "),
        (0.74, r"\bi(?:'ve| have)?<soon> decided (?:that |to )(?P<say>)"),
        (0.85, r"\b<us><have><soon> agreed (?:that |to )(?P<say>)(?!disagree)"),
        (0.82, r"\b<us><have><soon> (?P<say>)agreed (?:on|upon) "),
        (0.85, r"\b<we><have><soon> (?P<say>)settled on "),
        (0.85, r"\b<we><have><soon> (?P<say>)opted (?:for|to|against) "),
        (0.82, r"\bwe<have><soon> (?P<say>)chosen? "),
        (0.84, r"^decided to (?P<say>)"),  # in lists of finished work
        (0.82, r"^(?P<say>)(?:decided (?:on|against|not to)|opted for|settled on|chose) "),
        (0.64, r"^(?P<say>)used (?=.*instead of)"),
        (0.86, r"\bit (?:was|has been|is) (?:decided|agreed) (?:that |to )(?P<say>)"),
        (0.88, (r"\b(?:the|our|my)(?: final)? decision(?: here)? (?:is|was)(?::|,| that| to)? "
               r"(?P<say>)(?!yours|up to|not|still|pending|open|about|made|hard|unclear|whether"
               r"|between|based|how|what|which|who|where|when|final\b|right|wrong|fine|good|bad)")),
        (0.77, r"\b<we><will> (?P<say>)go (?:with|for) "),
        (0.78, r"\b<we><be> (?P<say>)going with "),
        (0.8, r"\bwe<soon> (?P<say>)went with "),
        (0.77, r"\b<we><will> (?P<say>)stick (?:with|to) "),
        (0.74, (r"\bwe(?:'re| are)<soon> (?P<say>)(?:switching|moving|migrating) (?:over )?to "
               r"(?!the next)")),
        (0.64, r"\bwe<will> (?P<say>)use "),
        (0.72, r"<lets>(?P<say>)(?:use|go with|stick with|stick to|settle on|standardi[sz]e on) "),
        (0.62, r"<lets>(?P<say>)(?:switch to|migrate to|adopt) "),
        (0.55, r"<lets>(?P<say>)(?:replace|drop|keep|leave|make|avoid|not <do>) "),
        (0.65, (r"\bwe should (?P<say>)(?:definitely |always |just |rather )?(?:use|go with"
               r"|choose|pick|switch to|prefer|adopt) ")),
        (0.55, r"^(?P<say>)(?:use|prefer|choose|pick) (?=.*instead of)"),
    ),
    Act.RULE: (
        (0.8, r"^(?:our |project |team )?convention ?: ?(?P<say>)"),
        (0.86, (r"\bfrom now on,? ?(?:please |you should |you must )?(?:we(?:'ll| will"
               r"| should)? )?(?P<say>)")),
        (0.84, (r"^going forward,? (?:please |(?=always |never )|we(?:'ll| will| should)? )"
               r"(?P<say>)")),
        (0.76, r"^(?:you (?:should|must) )?(?P<say>)always <do> "),
        (0.76, r"^(?:you (?:should|must) )?(?P<say>)never <do> "),
        (0.76, r"\bwe (?P<say>)(?:always|never) <do> "),
        (0.8, r"\b(?:our|the)(?: \w{1,30})? convention (?:here )?is (?:that |to )(?P<say>)"),
        (0.72, (r"\bi(?:'d| would)?(?: really| much| strongly| generally| always)? "
               r"(?P<say>)prefer (?!if|you\b)")),
    ),
    Act.FINDING: (
        (0.88, (r"^(?:lessons? learned|lesson|learned|til|(?:key )?takeaway|(?:key )?insight)"
               r"(?: here)? ?: ?(?P<say>)")),
        (0.88, r"^til(?: that)?,? (?P<say>)"),
        (0.88, r"^root cause ?: ?(?P<say>)"),
        (0.8, r"^gotcha ?: ?(?P<say>)"),
        (0.84, r"^(?:always )?remember ?: ?(?P<say>)"),
        (0.84, r"^note to self ?[:,-]? ?(?P<say>)"),
        (0.88, (r"\b(?P<say>)(?:the|our|its) (?:(?:root|real|actual|underlying|true) ){1,3}cause"
               r"(?: of [^.?!]{1,120}?)? (?:was|is|turned out) (?!unclear|unknown|still|not\b"
               r"|hard|it\b)")),
        (0.85, r"\bit (?:all )?turn(?:s|ed) out,? (?:that )?(?P<say>)(?!<well>|to\b)"),
        (0.84, r"^turns out,? (?:that )?(?P<say>)(?!<well>)"),
        (0.8, r"\bturn(?:s|ed) out to be (?!<well>)"),
        (0.88, r"\blessons? learned(?:(?:[:,.!-]| is| was| here| that){1,4} ?|$)(?P<say>)"),
        (0.85, (r"\b(?:the|my|our|one)(?: \w{1,30})? lesson(?: here| from (?:this|that|it))? "
               r"(?:is|was)(?: that| to|:|,)? (?P<say>)")),
        (0.85, (r"\b<we><have><soon> learn(?:ed|t)(?: today| here)?(?: the hard way)? that "
               r"(?P<say>)(?!the hard way|lesson|from)")),
        (0.84, (r"\b(?:the |one |our |my )?key (?:insight|takeaway|finding|learning|lesson)"
               r"(?: here)? (?:is|was)(?: that|:|,)? (?P<say>)")),
        (0.8, r"\b<we><have><soon> (?:found|figured) out that (?P<say>)"),
        (0.78, r"\b<we><have><soon> discovered that (?P<say>)"),
        (0.63, r"\b<we><have><soon> reali[sz]ed that (?P<say>)"),
        (0.74, (r"\b(?P<say>)the (?:actual |real |underlying )?(?:problem|issue|bug|culprit"
               r"|reason) was (?:that |caused by |due to |actually |in fact )")),
        (0.74, r"\b(?P<say>)the (?:actual |real )?(?:fix|solution|workaround) was to "),
        (0.62, (r"\b(?:fail(?:s|ed|ing)?|br(?:eaks?|oke)|crash(?:es|ed)?|hangs?|hung|(?:didn't"
               r"|doesn't) work) because ")),
        (0.62, r"(?:^|[:,-] )fixed by \w{1,30}ing "),
        (0.64, (r"\b(?P<say>)the (?:actual |real |underlying )(?:problem|issue|bug|culprit"
               r"|reason) is ")),
        (0.83, (r"<ask>remember,? that (?P<say>)(?!time|bug|file|function|thing|one\b|issue|error"
               r"|day|test\b|script|problem|weird|old\b)")),
        (0.74, r"<ask>remember,? (?P<say>)we(?:'re|'ve)? "),
        (0.8, r"<ask>(?:keep in mind|bear in mind|don't forget),? that (?P<say>)"),
        (0.82, r"^(?:just )?for future reference[,:] (?P<say>)"),
        (0.65, r"<ask>remember to (?P<say>)"),
    ),
    Act.BLOCKER: (
        (0.88, r"^(?:blockers?|blocked) ?: ?(?P<say>)"),
        (0.86, r"\b<we><be><still> (?P<say>)blocked (?:by|on|until|because|waiting)\b"),
        (0.85, (r"\b(?P<say>)(?:the|our|my|one|another)(?: (?:main|big|biggest|real|only|current"
               r"|remaining))? blocker(?: here| right now)? is (?!gone|fixed|resolved|removed"
               r"|no )")),
        (0.8, (r"\bis(?: currently| still| now)? blocking (?:us|our|everything|the (?:release"
              r"|launch|deploy(?:ment)?|rollout|migration))\b")),
        (0.82, (r"\bwe (?P<say>)(?:can't|cannot|can not) (?:ship|release|merge|deploy|proceed"
               r"|continue|move on|go live|launch|upgrade|start)(?: [\w' -]{1,60})? (?:until"
               r"|because|without|unless|as long as)\b")),
        (0.66, r"\b(?:is|are)<still> blocked (?:by|on)\b"),
        (0.62, r"\bwe<be><still> (?P<say>)waiting (?:on|for) "),
        (0.6, r"\b<we><be><still> (?P<say>)stuck (?:on|with|because|at)\b"),
    ),
    Act.PROGRESS: (
        (0.75, r"^progress(?: update)? ?: ?(?P<say>)"),
        (0.72, (r"\bwe(?:'ve| have)?<soon> (?P<say>)(?:finished|completed|shipped|released"
               r"|rolled out) (?!it\b|this\b|that\b)")),
        (0.62, (r"\b(?:i|we)(?:'ve| have)<soon> (?P<say>)(?:finished|completed|shipped|released"
               r"|deployed|implemented|migrated|merged) ")),
        (0.5, r"\ball (?:the |\d{1,9} )?tests (?:now )?pass(?:ing)?\b"),
    ),
}
# fmt: on


PHRASES = tuple(
    Phrase(
        act, confidence, Cue(re.sub("<[a-z]+>", lambda name: _SHORT.get(name[0], name[0]), source))
    )
    for act, rows in _PHRASES.items()
    for confidence, source in rows
)
