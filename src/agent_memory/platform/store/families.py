"""The named families of the store. Add a new one here: stores gain it when they are opened."""

EVENTS = "events"  # evt:{ms:013}:{event id} -> event
EVENT_IDS = "event_ids"  # eid:{event id} -> ms
SESSION_EVENTS = "session_events"  # ses:{session}:{ms:013}:{event id}
TOC_NODES = "toc_nodes"  # toc:{level}:{period}, and with :v{n:06} the kept versions -> node
TOC_LATEST = "toc_latest"  # toc:{level}:{period} -> number of the present version
TOC_STATE = "toc_state"  # open segments, dirty nodes, stale and pinned grips
SEGMENTS = "segments"  # ses:{session}:{ms:013}:{event id} of the first event -> segment
GRIPS = "grips"  # grip:{ms:013}:{ulid}
OUTBOX = "outbox"  # outbox:{sequence:020} -> the key of the record that changed
EMBEDDING_QUEUE = "embedding_queue"  # {live|past}:{priority}:{sequence:020} -> as the outbox
TERM_VECTORS = "term_vectors"  # {owner} -> the terms of its first document, to rank it
PROGRESS = "checkpoints"  # checkpoint:{job}
ACCESS_KEYS = "access_keys"  # key:{name} -> hash, created
MEMORIES = "memories"  # mem:{domain}:{namespace}:{digest} -> memory
MEMORY_USES = "memory_uses"  # the same key -> how often and when it was last recalled
NOTE_QUEUE = "note_queue"  # note:{home}:{sequence:020} -> the key of the memory that changed
PROJECTS = "projects"  # project:{id} -> project, home:{home} -> id, seen:{home} -> state of notes
JOURNAL = "journal"  # run:{sequence:020} -> changes of a consolidation; looked:{domain} -> when
FACTS = "facts"  # fact:{id}, former:{id}, and index rows of their order
KNOWLEDGE = "knowledge"  # episode, procedure, chain, user and session, likewise
GRAPH_CHECKPOINTS = "graph_checkpoints"  # states of graphs: graph_layout.py has the layout
INJECTIONS = "injections"  # given:{sequence:020} -> what a hook gave to an agent, by reference
LESSONS = "lessons"  # what sessions teach, and what became of it: lesson_store.py has the layout
AUDIT = "audit"  # at:{sequence:020} -> who did what on a team server
UPSTREAM = "upstream"  # the exchange with a team's server: upstream_store.py has the layout
META = "meta"  # schema version, sequence counters

ALL = (
    EVENTS,
    EVENT_IDS,
    SESSION_EVENTS,
    TOC_NODES,
    TOC_LATEST,
    TOC_STATE,
    SEGMENTS,
    GRIPS,
    OUTBOX,
    EMBEDDING_QUEUE,
    TERM_VECTORS,
    PROGRESS,
    ACCESS_KEYS,
    MEMORIES,
    MEMORY_USES,
    NOTE_QUEUE,
    PROJECTS,
    JOURNAL,
    FACTS,
    KNOWLEDGE,
    GRAPH_CHECKPOINTS,
    INJECTIONS,
    LESSONS,
    AUDIT,
    UPSTREAM,
    META,
)

# What a daemon derives for its own indexes. Daemons that share a database keep it in files of
# their own.
LOCAL = (EMBEDDING_QUEUE, TERM_VECTORS)

# Only in databases that processes share, and no part of the memory: lease:{name} -> holder,
# lease-end:{name} -> ms, reached:{name} -> number of the outbox, wanted:{name} -> who asks for it,
# commit:{writer} -> token of its last group, changed:{family} -> token of the last group
LEASES = "leases"
VECTOR_COPIES = "vector_copies"  # {owner}:{model}:{document} -> vectors that a daemon has made
SHARED = (*ALL, LEASES, VECTOR_COPIES)
