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
    # What tells a lesson. One of these alone says little: lessons weigh them together.
    LASTING = auto()  # for longer than now
    FORBIDDING = auto()
    RESERVING = auto()  # it is not to be touched, or only in one way
    SCOPE = auto()  # for all of a kind
    PREFERENCE = auto()
    WISH = auto()
    AMOUNT = auto()
    CUSTOM = auto()  # what we do here
    UNIVERSAL = auto()  # how all of a kind are to be
    NECESSITY = auto()
    CONTRAST = auto()  # this and not that
    OBJECTION = auto()  # to what was just done
    CHOICE = auto()  # one of several is taken
    CONSENT = auto()
    OPEN_CHOICE = auto()  # a question that is to be settled
    RECAP = auto()  # what follows sums up what was settled
    GIVING_UP = auto()
    EXPLANATION = auto()
    SURPRISE = auto()
    LIMIT = auto()  # what something does not do, or needs
    ADMISSION = auto()  # that something said before was wrong
    POSTPONING = auto()
    UNDONE = auto()  # it is not done
    PLACE = auto()  # where something is, listens or runs, and whose it is


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
    Act.LASTING: Cue(
        r"\b(?:from now on|going forward|from here on|(?:in|for) (?:the )?future|henceforth"
        r"|(?:every|each|any|next) time|whenever|as a rule|house rule|in this (?:repo|repository"
        r"|project|code ?base|team|package|house)|in our (?:repo|repository|project|code ?base"
        r"|team|code)|around here|i(?:'ve)? (?:told|asked) you|you keep \w+ing|how (?:often"
        r"|many times)|(?:our|the)(?: team)? (?:convention|rule|policy|standard|agreement) is"
        r"|(?:when|whenever|before|if) (?:you|u|we|someone|anyone) (?:change|touch|add|edit"
        r"|write|create|introduce|rename|remove|delete|commit|push|merge|release|deploy|open"
        r"|move)\b.{3,80}[,:] ?(?:then )?(?:please |also |always |first )*[a-z]+)\b|(?:^"
        r"|[,;:.!\u2014-] |\b(?:please|pls|and|but|also|so|you|we|should|must|to|ok|no"
        r"|just) )(?:never|always)\b(?! ?(?:mind|the less|seen|heard|been|knew|thought|sure)\b)"
        r"|\b(?:never|always)[.!]*$"
    ),
    Act.FORBIDDING: Cue(
        r"(?:^|[,;:.!\u2014-] |\b(?:please|pls|and|but|also|so|ok|no|just|you|we|nobody|people"
        r"|anyone) )(?:(?:don'?t|do not|mustn't|must not|may not|shouldn't|should not|can'?t"
        r"|cannot|never|no one should|let's not)(?: ever| just| even)? (?!know|think|understand"
        r"|see\b|need|have\b|want|care\b|bother|remember|get\b|mind|be\b|feel|believe|like\b"
        r"|wait|worry|seem|really|find|say\b|tell|help|work|matter|recall|mean|hear|yet|it\b"
        r"|agree|trust this)[a-z]+|stop \w+ing\b|quit \w+ing|avoid\b|no more\b|hands off"
        r"|stay (?:away|out)|keep (?:\w+ ){0,3}out of|not a (?:single )?(?:byte|line|word)"
        r"|not even)|\b(?:must|may|should|can|is|are)(?: not|n't| never)(?: to)? be \w+ed\b"
        r"|\bmust(?:n't| not| never)\b|\bnothing (?:is|gets|goes|may|must)\b|\bnobody (?:is|gets"
        r"|may|should)\b|^(?:please,? |so |and |but |ok(?:ay)?,? |nope?,? "
        r"|agreed[.,] )?no (?!idea|problem|worries|need|rush|hurry|way|longer|one\b|matter|doubt"
        r"|luck|change|wonder|surprise|the\b|that\b|it\b|i\b|you\b|we\b|not\b|leave|they|he\b"
        r"|she\b|there|this|actual|more\b|big\b|real\b|just\b)[\w-]+(?: [\w-]+){0,5}(?: (?:in|on"
        r"|for|to|anywhere|please|at|outside|inside|without|then|here)\b|[.!]*$)"
        r"|\bnothing\b.{1,60}\b(?:may|must)\b|\bnobody (?!knows?|understands?|looks?|cares?|has"
        r"|wants?|likes?|noticed|here|else|can|uses?|was|is)\w+s\b"
    ),
    Act.RESERVING: Cue(
        r"\b(?:off[- ]limits|hands off|out of bounds|leave .{1,60}\b(?:alone|as (?:it|they"
        r"|is))\b|(?:don't|not) touch|(?:is|are) (?:frozen|read-?only|sacred|generated"
        r"|auto-?generated|vendored|forbidden|banned|mandatory|not allowed|not to be|taboo)"
        r"|no business|(?:needs?|gets?|has|have|takes?|requires?|wants?) (?:an? |the |its "
        r"|their )?(?:ok\b|okay|approval|sign-?off|review)|(?:ok|okay|approval"
        r"|sign-?off) (?:from|of|by)|signs? off|ask (?:me |us |\w+ )?(?:first|before)"
        r"|asked (?:me |us )?first|without asking|before (?:you|u) (?:touch|change|push|merge"
        r"|delete|deploy|run|edit|drop|commit)|call \w+ first|(?:only|nobody but) \w+ (?:may|can"
        r"|is allowed))\b"
    ),
    Act.SCOPE: Cue(
        r"\b(?:everywhere|anywhere|throughout|nowhere|wherever|every|each|any|everything|anything"
        r"|across|whole|all (?!right|good|set|green|of a sudden|done|fine|day|the time)\w+"
        r"|\w+ only|only (?:via|through|with|in|for|by|from|at|use)|nothing (?:but|else)"
        r"|exclusively"
        r"|ever|no matter)\b"
    ),
    Act.WISH: Cue(
        r"\b(?:i(?:'d| would)(?: really| much)? like|i(?: really)? want|\w+ wants?|i (?:don't"
        r"|do not|dont)"
        r" (?:want|like)|i expect|would you mind|make sure|be careful|remember|keep in mind"
        r"|note that"
        r"|please|pls)\b"
    ),
    Act.AMOUNT: Cue(
        r"\b(?:max(?:imum|imal)?|at most|at least|no more than|up to|under|below) \d"
        r"|(?<![\w.#-])\d[\d.,]* ?(?:%|\u20ac|\$|days?|weeks?|months?|hours?|h\b|minutes?|min\b"
        r"|seconds?|s\b|ms\b|times|attempts?|retries|lines?|characters?|chars|columns?|spaces"
        r"|mb\b|gb\b|kb\b|rows?|items?|px\b|everywhere)|\b(?:one|two|three|four|five|six|seven"
        r"|ten|twelve|thirty) (?:days?|weeks?|months?|hours?|minutes?|seconds?|times|attempts?"
        r"|retries|spaces|seeds?|approvals?|reviewers?)\b|\b(?:to|at|is|of|say|be"
        r"|with) v?\d+(?:\.\d+)*\b(?! ?(?:of|tests?|files?)\b)"
    ),
    Act.CUSTOM: Cue(
        r"\bwe (?!need|have|had|want|should|could|can|will|are|were|was|got|get|saw|see|think"
        r"|know|must|may|might|lost|tried|did|do\b|don't|agree|hope|would|been|found|made|sell"
        r"|ship(?:ped)?|'|\w+ed\b)[a-z]{3,}\b(?=.*\b(?:here|every|each|all|only|exactly|with|for"
        r"|as|in|by)\b)|\b(?:we|our team|the team|everybody(?: here)?) (?:always|never|only"
        r"|don't|do not|dont|use|keep|stick|write|put|run|name|prefer|require|agreed"
        r"|standardi[sz]ed|have an? (?:rule|policy|convention)|no longer (?:use|do|support|want"
        r"|allow)|stopped)\b|\b(?:like|as) (?:the|all|in the) (?:others?|rest|other \w+)\b"
        r"|\bthe way we\b|\b(?:house style|conventions?|(?:our|the|team) (?:policy|rule|standard"
        r"|style guide|guidelines?)|per (?:our|the) (?:\w+ )?(?:rule|policy))\b"
    ),
    Act.PREFERENCE: Cue(
        r"\b(?:i(?:'d| would)(?: really| much)? (?:rather|prefer)|i(?: really| strongly"
        r"| much)? prefer|i (?:hate|insist|don't like|do not like|dislike|can't stand)"
        r"|would (?:really )?be (?:\w+ )?(?:nice|kind|great|good|better) if)\b|\bi'd (?:feel"
        r"|sleep|be) .{0,20}(?:better|happier) if\b"
    ),
    Act.UNIVERSAL: Cue(
        r"^(?:(?:please|and|also|but|so|no|hm+|ok(?:ay)?)[,.! ]+)*(?:(?:all|every|each|any|new"
        r"|public|our) )?"
        r"(?!the\b|this|that|these|those|my\b|his|her|it\b|its|there|i\b|we\b|you|u\b|he\b|she"
        r"|they|what|which"
        r"|if\b|when|where|how|why|who|some|many|most|both|numbers|customers|people|users"
        r"|results|things|thanks"
        r"|only|nobody|everybody|everyone|does|do\b|is\b|are\b|was|has"
        r"|not\b)[\w./`-]+(?: (?!is\b|was|the\b|i\b|we\b"
        r"|you\b|it\b|still|just|now)[\w./`-]+){0,3} (?:must|should|shall|has to|have to"
        r"|needs? (?:an?|to|no)|go(?:es)?"
        r"|ends? with(?:out)?|starts? with|lives? (?:in|under|next)|belongs?|stays?"
        r"|comes? (?:before|after|first|with)"
        r"|gets? (?:an?|its|their|no)|are (?:in|at|always|never|utc|integers?|named|called"
        r"|written|stored|kept|plain"
        r"|lower|upper|sorted|pinned|immutable|reversible|generated)|is (?:always|never|written"
        r"|stored|kept|named|spelled)"
        r"|use|carry|carries|take)\b(?!.*\b(?:fail|fails|error|errors|broken|wrong|slow|red"
        r"|crash)\b)"
    ),
    Act.NECESSITY: Cue(
        r"\b(?:must|has to|have to|needs? to be|(?:is|are) to be|should (?:be|go|have|use|only"
        r"|live)|ought to|supposed to|belongs? (?:in|to|into|under)|goes? (?:in|into|under))\b"
        r"|(?:^|, )(?:(?:ok(?:ay)?|then|so|and|but|please|pls|no|nope|hm+|just"
        r"|also)[,.! ]+)*(?:use|take|put|keep|write|name|call|prefer|stick|make sure|ask|start"
        r"|wrap|go through|leave|format|log|store)\b|\bgo(?:es)? through\b"
    ),
    Act.CONTRAST: Cue(
        r"\b(?:instead of|rather than|in place of)\b"
        r"|, (?:not|never|and not) (?!yet|sure|only|just|now|today|really|because|if\b"
        r"|necessarily|that"
        r"|so\b|as\b|bad)[\w`.@/-]+|\bnot [\w`.@/-]+ ?[,;:\u2014-]+ ?(?:but |use )?\w"
    ),
    Act.OBJECTION: Cue(
        r"^(?:(?:hey|argh+|whoa|ok|oh|hm+|ugh|please|sorry|but|and)[,.! ]+)*(?:(?:no"
        r"|nope)(?:[,.!:\u2014]| -)|(?:stop|wait|careful|hold on|don't|not like (?:this|that)"
        r"|never|almost)\b[,.!:\u2014 -])|\b(?:you|u)(?: just| again)? (?:used|edited|wrecked"
        r"|broke|added|pushed|deleted|committed|changed|forgot|put|wrote|named|overwrote"
        r"|touched)\b|\bthat's (?:wrong|not)\b|\bagain!"
    ),
    Act.CHOICE: Cue(
        r"\bit is\b[,.! ]*(?:then)?$|\b(?:go|going|went) with|\blet'?s (?:use|go|take|do|stick"
        r"|stay|keep|have|switch|move|say|drop)|\bwe(?:'ll| will|'re going to)? (?:use|go|take"
        r"|keep|stay|stick|switch|move|drop|do)\b|\b(?:i )?take (?:that|the|option)"
        r"|\b(?:settled?|decided?) (?:on|for|to|against|that)\b|\bstick (?:with|to)"
        r"|\bstay (?:with|on)|\bswitch to|\b(?:kick|throw)(?:ed)? out|\bget rid of"
        r"|\breplace .{1,40} (?:with|by)\b|\bso no \w+|\bno [\w.-]+ then\b|\bit'?s out\b|\b(?:is"
        r"|are) (?:dead|gone|out|history)\b|\bthen(?:[.!]*$|,)|\bagreed\b|\bwe go\b|\bonly for\b"
        r"|\bfor everything\b|^(?:(?:do it|ok(?:ay)?|yes|then|good|fine)[,.:] )?(?!thanks|thank"
        r"|sorry|good|great|nice|ok|okay|time|wait|look|perfect|fine|ready|as\b|and\b|so\b|but\b"
        r"|not\b|except|only|just|what|waiting|asking|searching|useful"
        r"|enough)[\w.`/-]+(?: [\w.`/-]+)? for (?!me\b|now|today|that|this|it\b|a (?:moment"
        r"|while|second)|the (?:help|info|update)|you|us\b|some)\w+"
    ),
    Act.CONSENT: Cue(
        r"^(?:(?:ok(?:ay)?|oh|ah|hm+|well|alright|and|then)[,.! ]+)*(?:yes|yep|yeah|ok(?:ay)?"
        r"|exactly"
        r"|right|correct|confirmed|agreed|perfect|good|great|nice|sounds (?:good|right|fair"
        r"|fine)|fine"
        r"|go|do (?:it|that|so)|ship it|makes sense|deal|sure|absolutely|precisely|convinced|sold"
        r"|that's (?:it|right|the (?:rule|policy|one))|take that|lgtm|works for me|i like|that one"
        r"|the (?:first|second|third|latter|former)|acceptable|let's do)\b"
    ),
    Act.OPEN_CHOICE: Cue(
        r"\b(?:which|should we|shall we|what (?:do|would|should) (?:we|you|ppl|people|one)"
        r"|what to|how (?:do|should|shall|would) we|decide|settle|options?|vs\.?|versus"
        r"|recommend|alternatives?|tool|framework|library|format|\w+,? or \w+|(?:pick"
        r"|choose) (?:an?|the|one|between)|do we (?:want|need|use))\b"
    ),
    Act.RECAP: Cue(
        r"^(?:(?:ok(?:ay)?|good|right|then|so|perfect|great|done|understood|agreed"
        r"|thanks)[,.! \u2014-]+)*(?:(?:the |a |to |in )?(?:recap|short"
        r"|sum(?:ming)? up(?! what (?:changed|was|i\b))|summary(?! of (?:what|the ch|ch|work)))"
        r"|(?:settled|agreed|decided|final(?:ly)? \w+)(?=[:,\u2014 -]* ?[:\u2014-] )"
        r"|so the (?:rule|policy|contract|plan|convention)|amend(?:ed|ing)|i note|noted:"
        r"|all in all|to put it (?:in|all)|in one (?:place|sentence|line)|(?:the|our) (?:rule"
        r"|policy|contract|convention|decision) (?:is|now)|so [\w./-]+ it is|that settles"
        r"|to be clear|let me (?:recap|restate|sum))\b"
    ),
    Act.GIVING_UP: Cue(
        r"\b(?:gave (?:it |that |this |them )?up|giv(?:e|ing|en) (?:it |that |this )?up"
        r"|back(?:ed|ing) (?:it |that |this |them )?out|took (?:it|them|that) (?:back )?out"
        r"|rolled (?:it |that |this |everything )?back|(?:had to|must) roll (?:it )?back"
        r"|abandon(?:ed)?|dead[- ]end|(?:did|does)(?: not|n't) (?:help|work out|pan out|pay off"
        r"|scale)|no good|(?:was|is)(?:n't| not) worth|not worth|unusable|not usable"
        r"|isn't usable|scrapped|drop(?:ped)? (?:the idea|it\b|that\b|them)|forget (?:it"
        r"|about it|that)|it'?s out\b|(?:is|was|are) (?:therefore |thus |hence )?out[.,;]"
        r"|so no \w+|no [\w.-]+ then|can'?t be worked around|don't see a (?:good )?way|(?:even "
        r"|actually )?slower (?:than|because|since)|twice as slow|(?:made|makes"
        r"|got) (?:\w+ ){0,2}(?:slower|worse)|went back to|go back to|reverted|undid it"
        r"|made no difference|leads? nowhere|led nowhere|waste of time|(?:approach|attempt|idea"
        r"|variant|experiment)\b.{0,60} failed|no compatible)(?!\w)"
    ),
    Act.EXPLANATION: Cue(
        r"\b(?:turn(?:s|ed) out|root cause|the (?:\w+ )?(?:reason|cause|culprit|catch|trick|bug"
        r"|explanation|decisive \w+) (?:is|was|:)|reason:|found it|that'?s why|that is why"
        r"|which is why"
        r"|because|caused by|due to|since|as the|so the|so that|thus|therefore|hence|otherwise"
        r"|which (?:makes|made|means)|that (?:makes|means))\b"
    ),
    Act.SURPRISE: Cue(
        r"\b(?:nothing fails|no error|silently|although|even though|unlike|despite"
        r"|only (?:fires?|works?|applies|happens|takes|counts?|reads?|sees?)|by itself"
        r"|on its own|behind (?:the|your) back|wraps?(?: around)?|without (?:a|an"
        r"|any) (?:warning|error|word)|swallow(?:s|ed)?|no warning|contrary to"
        r"|counter-?intuitive\w*|misleading|the catch|quirk|gotcha|pitfall|beware|careful"
        r"|surprising\w*|only when|only if|stale|shadow(?:s|ed)|overrid(?:es?|den)|goes straight"
        r"|straight to|keeps? the old)\b"
    ),
    Act.LIMIT: Cue(
        r"\b(?:has no|have no|doesn't|does not|don't|isn't|aren't|never|ignor(?:es?|ed)|cached"
        r"|has to|have to|must|needs?|differs?|instead of|rather than|is not|are not|wasn't"
        r"|weren't|but|actually|still|no longer|by default|automatically|only (?:in|when|if|a"
        r"|the|at|after|on|for)|cannot|can't|thus|so)\b"
    ),
    Act.ADMISSION: Cue(
        r"\b(?:i was (?:wrong|mistaken)|my mistake|i mis\w+|i had looked at the wrong"
        r"|i stand corrected|that"
        r" was wrong|thanks,? corrected|i claimed|(?:you're|you are) right(?:[,:]| and i| that)"
        r"|my error)"
    ),
    Act.POSTPONING: Cue(
        r"\b(?:not today|another day|later|after the \w+|tomorrow|next (?:week|time|sprint"
        r"|month)|on monday"
        r"|only note it|just note it|for now|park (?:it|that)|stop here|postpone"
        r"|until .{1,40} (?:decid|ha[sd]"
        r"|is|are|answer)|waits? for|waiting for|when .{1,30} is back)\b"
    ),
    Act.UNDONE: Cue(
        r"(?:what's|what is|is|are|still) missing\b|\b(?:still|yet) (?:has|have) to\b"
        r"|\bstill needs?\b|\bstill to (?:do|be)\b|\bfor later\b|\b(?:postponed|deferred)\b"
        r"|(?:n't|\bnot)\b.{1,40}\byet\b|\bnot yet\b|\bunused yet\b|\b(?:other|rest|remaining"
        r"|last|others)\b.{0,60} (?:are|is) not[.,;!]|\bisn't[.:;,](?= |$)|\bstill (?:off|on\b"
        r"|open|missing|uses?|points?|pending|disabled|hard-?coded|the old|manual|broken"
        r"|fails? (?:on|in|with|if|when)|red|unused|untested|undocumented|lacks?)\b|\bstubbed\b"
        r"|\bplaceholder\b|\btemporar(?:y|ily)\b|\bremains?(?::|,| to be| open)|\bremaining:"
        r"|\bremains?\b.{0,60}\buntil\b|\bone thing remains\b|\bleft (?:to do|undone|open)\b"
        r"|\boutstanding\b|\bopen (?:points?|questions?|issues?|ends?|items?)\b|\bto ?do:"
        r"|\bfixme\b|\byet to \w+|\b(?:i|we) (?:could|did|have)(?:n't| not) (?:yet "
        r"|been able to )?\w+|\b(?:skipped|disabled) (?:for now|until)|\bcommented out\b"
        r"|\bxfail\b|\bnext steps? (?:is|are|would)|\bnext step:|\b(?:unfinished|incomplete"
        r"|half[- ]done)\b|\bnot (?:done|finished|written|implemented|migrated|tested|covered"
        r"|wired|replaced|there|moved|started|handled|converted|in place)\b|\bisn't (?:done"
        r"|finished|written|there|tested|covered|wired)\b|\bwait(?:s|ing) for\b|\bblocked (?:on"
        r"|by|until)\b|\bstays? .{1,40} until\b|\buntil .{1,40} (?:has|have|is|are|decid\w+)\b"
        r"|\bsomebody (?:has to|must|should)\b|\bthere is no .{1,30} yet\b|\b(?:has"
        r"|have) to wait\b|\bi have \w+ed nothing\b"
    ),
    Act.PLACE: Cue(
        r"\b(?:listens?|runs?|lives?|sits?|moved|hosted|reachable|stored|located|responsible"
        r"|belongs?"
        r"|owned?s?|owner|maintain(?:s|ed|er)|port|version|host|url|path|user(?:name)?|bucket"
        r"|account"
        r"|called|named|stands? for|means|is|are|was|takes?|needs?|every|limit(?:ed)?|expires?)\b"
    ),
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
        r"(?:use|run|write|add|prefer|keep|put|commit|push|import|create|call|check|ask|format"
        r"|name"
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
               r"|between|based|how|what|which|who|where|when|final\b|right|wrong|fine|good"
               r"|bad)")),
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
