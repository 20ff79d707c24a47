"""Words of a developer's conversation with an assistant, commonest first, written for this use."""

FUNCTION = """
the to a and I of it is in that this for on with you we be not so if but as at are have do can
was from there an now no then by only what when will would should up all one out or my your its
which just also still before after where how into because each has does did any more some here
both same than other been they let too use need see make get run back over once first again about
next them every while them's itself those these why until might could two three us our their
"""

CONTENT = """
test file error function code line change server request fix check call value data type run name
list user result build branch commit message key time path log problem output store config query
event index table case class read write module thread version field response client failure default
return start stop set cache loop lock queue string number reason order state step memory process
page option flag process job worker session token schema batch limit size row column record folder
directory script command import package dependency library release deploy pipeline container image
network socket port timeout retry connection header body payload endpoint route handler middleware
parser lexer compiler linter formatter warning exception traceback stack frame pointer reference
offset buffer stream chunk byte digit prefix suffix pattern regex match group filter map reduce sort
search result rank score vector embedding model prompt answer question summary note decision plan
review comment patch diff merge conflict rebase history author reviewer ticket issue milestone
deadline customer account invoice payment order product price region language translation locale
keyboard button dialog window layout colour font margin border icon menu screen widget animation
database migration backup replica shard partition transaction isolation checkpoint snapshot journal
compaction bloom iterator cursor watermark sequence counter gauge histogram metric dashboard alert
certificate secret password permission policy role group audit signature hash digest cipher nonce
benchmark latency throughput percentile median baseline regression profile hotspot allocation
garbage collector heap leak overflow underflow rounding precision decimal fraction integer boolean
assertion fixture mock stub fake property example contract coverage suite parametrize invariant
refactor rename extract inline duplicate abstraction interface adapter boundary layer domain service
clock calendar timezone midnight duration interval schedule cron weekday quarter holiday
garden kitchen coffee window morning evening weekend train ticket hotel airport luggage weather
doctor appointment recipe onion butter flour oven bicycle helmet guitar piano concert novel chapter
brother daughter neighbour colleague manager teacher student lecture homework exam
"""

VERBS = """
add remove move write read open close parse build check fix keep drop return raise catch wait send
receive load save update delete create rename replace compare measure explain describe expect
assume notice suspect confirm reproduce investigate narrow widen split join merge revert apply
commit push pull fetch clone install upgrade pin configure enable disable skip ignore handle wrap
avoid prefer suggest propose decide agree remember forget mention document simplify rewrite reuse
"""

QUALIFIERS = """
new old small large slow fast empty missing wrong right broken stable flaky simple complex single
whole local remote public private shared internal external previous current latest final early late
deep shallow strict loose explicit implicit optional required duplicate stale fresh silent noisy
actually probably really clearly simply exactly roughly almost usually never always sometimes maybe
likely quickly safely directly already instead together otherwise however therefore meanwhile
"""

OPENINGS = (
    "Okay", "Right", "Sure", "Hmm", "Thanks", "Looking at it", "To be clear", "In short",
    "As far as I can tell", "Good catch", "One more thing", "For context", "Done", "Not yet",
    "Let me check", "I see", "Wait", "My guess", "Yes", "No",
)  # fmt: skip

ENDINGS = ("py", "ts", "rs", "go", "md", "toml", "yaml", "sql", "sh", "json", "css", "proto")
FOLDERS = ("src", "tests", "docs", "app", "lib", "internal", "web", "scripts", "core", "api")
