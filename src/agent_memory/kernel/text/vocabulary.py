"""Words that carry little meaning: grammatical words and very common ones."""

_GRAMMAR = """
a a.m about above across after again against ago ah ain al all almost along already also although
always am an and another any anybody anymore anyone anything anyway apparently are aren around as
at away back basically be because been before behind being below besides between both but by bye
can cannot cause cos could couldn cuz did didn do does doesn doing don done down during e.g each
either else em enough etc even ever every everybody everyone everything everywhere except few for
from further gonna gotta had hadn haha has hasn have haven having he hello hence her here hers
herself hey hi him himself his hmm how however i i.e if in indeed inside instead into is isn it
its itself just kinda later least less let lets like ll lol lot lots many may maybe me might mine
more moreover most mostly much must mustn my myself near nearly neither never nevertheless next no
nobody none nope nor not nothing now nowhere of off oh ok okay on once one only onto or other
others otherwise ought our ours ourselves out outside over own p.m per perhaps please probably
quite rather re really s same shall shan she should shouldn since so some somebody somehow someone
something sometimes somewhere soon still such sure t than thank thanks that the their theirs them
themselves then there therefore these they this those though through thus till to today together
tomorrow too toward towards u un under unless until up upon us ve versus very via vs wanna was
wasn we well were weren what whatever when whenever where wherever whether which while who whoever
whole whom whose why will with within without won would wouldn wow ya yeah yep yes yesterday yet
you your yours yourself yourselves yup
"""

_COMMON = """
able absolutely accept act actual actually add added adding admire agree agreed aim allow amaze
amazed amazing appreciate appreciated appreciating ask asked asking aspect assistant ate awesome
awful bad basic beautiful became become began begin beginning believe best bet better big bigger
bit bless boost brand bring brings broke brought btw buddy bunch call called came care case
certain certainly challenge challenges challenging chance change changed changes changing chase
chasing check checked checking chill choose chose claude clear clearly close code cold come comes
coming common complete completely confirm congrats congratulations consider continue cool correct
correctly couple courage course crazy create created creating crucial curious current currently
cute day days deal dear decide decided deep def definitely determined difference different
difficult directly drank drove dude earlier easier easily easy effort efforts end ended ends enjoy
enjoyable enjoyed enjoying ensure entire especially exact exactly example excellent excited
exciting existing expect experience experiences explain express extra fact fair fall fantastic far
fast favorite feel feeling feelings feels fell felt fight figure figured file files final finally
find finding finds fine finish finished first fix flew follow following forget forward found four
free fresh froze full fully fun future gave gb general generally get gets getting give given gives
giving glad go goal goals goes going gone good gorgeous got gotten grateful great greatly grew
grow growing guess guy guys half handle hang happen happened happening happens happy hard harder
hardest hear heard hearing heart hectic held help helped helpful helping helps high hold hope
hopefully hoping hour hours huge idea ideal ideas image imagine impact important impressive
incredible inspire inspired inspiring interested interesting involved issue join journey kb keep
keeping keeps kept key killing kind kinds knew know knowing known knows kudos large last lately
latest leave left life light likely line lines listen little live lived lives living long longer
look looked looking looks love loved lovely loves loving low lucky made main make makes making man
mark matter matters mb mean meaning meaningful means meant mention mentioned mind minute minutes
miss mix moment moments month months morning motivated move moved moving ms necessary need needed
needs new nice night note notice number obviously old older open opportunity original overall paid
pal part particular particularly pass past pay people percent perfect perfectly person personal
photo photos pic pick pics picture pictures piece place places plan planned planning plans plenty
plus point positive possible power powerful pretty previous prob problem probs proof properly
proud provide pumped push pushing put puts putting question quick quickly quiet ran reach read
ready real realize reason recent recently recommend reflect relevant remember reminder reminds
respectively result return rewarding right rose run running runs sad said sat saw say saying says
scary second seconds see seeing seem seems seen send sense sent set several share shared shares
sharing short show showed showing shown shows shrank side similar simple simply single small
smaller soo sooo sorry sort sound sounds special specific spend spent spoke spot stand start
started starting starts state stay step steps stick stoked stole stop story strength strengths
strong stuff stunning successfully suck suggest super support supported supporting supportive
suppose surprise sweet tackle take taken takes taking talk talked talking tb tell telling tells
terrible terrific test thankful thing things think thinking thinks third thorough thought thoughts
three threw thrilled time times tip tips told ton tons took top total totally touch tough treasure
true truly trust truth try trying turn turned turns twice two type types understand understanding
update updated updating use used useful uses using usual usually valuable value variety various
view visit wait waiting walk want wanted wanting wants watch way ways week weekend weeks weird
went whoa woke wonder wonderful wondering word words wore work worked working works world worried
worry worrying worth write wrong wrote yay year years zero
"""

_ASKING = """
a about after am an and any are aren as at be been before being between but by can could couldn d
did didn do does doesn doing don done during for from had hadn has hasn have haven having he her
here hers herself him himself his how i if in into is isn it its itself ll m may me might mine must
my myself no nor not of on or our ours ourselves over please re remind s shall she should shouldn so
some t than that the their theirs them themselves then there these they this those to us ve was wasn
we were weren what when where whether which who whom whose why will with won would wouldn you your
yours yourself
"""

# Contractions are listed without their ending: "don" for "don't".
GRAMMAR = frozenset(_GRAMMAR.split())
COMMON = frozenset(_COMMON.split())
ASKING = frozenset(_ASKING.split())  # words of a question that do not name its subject
