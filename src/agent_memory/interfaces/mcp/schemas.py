"""The results of tools, as JSON Schema."""

from collections.abc import Mapping
from typing import Any

from agent_memory.interfaces.wire.search import HIT_FIELDS, PASSAGE_SCHEMA

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
MILLIS: Schema = {"type": "integer", "description": "Unix time in milliseconds."}
ID: Schema = {"type": "string", "description": "decisions:abc123def456:0"}
URI: Schema = {"type": "string", "description": "A resource that can be read."}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
MORE: Schema = {
    "type": ["string", "null"],
    "description": "Pass it as continuation_token to get what follows.",
}
NOTE: Schema = {"type": "string", "description": "What was left out, and how to get it."}
COUNTS: Schema = {"type": "object", "additionalProperties": {"type": "integer"}}


def nullable(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def array_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def object_of(required: Mapping[str, Schema], **further: Schema) -> Schema:
    """Describe an object with these properties, and optional further ones."""
    return {
        "type": "object",
        "properties": {**required, **further},
        "required": list(required),
    }


CAPTURE = object_of(
    {
        "success": FLAG,
        "memory_id": ID,
        "uri": URI,
        "namespace": TEXT,
        "domain": TEXT,
        "indexed": FLAG,
        "created": {**FLAG, "description": "False if the same memory existed."},
        "warning": nullable(TEXT),
    }
)

RESULT = object_of(
    {
        "kind": TEXT,
        "id": TEXT,
        "uri": URI,
        "score": {**SHARE, "description": "Relevance, from 0 to 1; 0 in a listing."},
        "summary": TEXT,
        "timestamp": TEXT,
    },
    **{field.name: field.schema for field in HIT_FIELDS if field.kinds},
    passage=PASSAGE_SCHEMA,
    key=TEXT,
    user=nullable(TEXT),
    content=TEXT,
    text=TEXT,
    truncated=FLAG,
    score_parts={"type": "object", "additionalProperties": {"type": "number"}},
)

RECALL = object_of(
    {
        "notice": TEXT,
        "results": array_of(RESULT),
        "total": COUNT,
        "certain": {**FLAG, "description": "False if no result is likely to be right."},
        "warning": nullable(TEXT),
        "continuation_token": MORE,
    },
    note=NOTE,
)

STATUS = object_of(
    {
        "total": COUNT,
        "by_domain": COUNTS,
        "by_namespace": COUNTS,
        "by_tier": COUNTS,
        "by_status": COUNTS,
        "index_bytes": COUNT,
        "last_sync": nullable(TEXT),
        "notes_waiting": COUNT,
        "to_review": {**COUNT, "description": "Only the user can accept these."},
        "feature_tier": TEXT,
        "contents": nullable(object_of({"segments": COUNT, "total": COUNT})),
        "project": nullable(TEXT),
        "version": TEXT,
    }
)

SYNC = object_of(
    {
        "success": FLAG,
        "domains": array_of(
            object_of(
                {
                    "domain": TEXT,
                    "imported": COUNT,
                    "written": COUNT,
                    "moved": COUNT,
                    "fetched": FLAG,
                    "pushed": FLAG,
                    "problems": array_of({"type": "object"}),
                }
            )
        ),
        "failed": array_of(object_of({"domain": TEXT, "reason": TEXT})),
        "warnings": array_of(TEXT),
    }
)

CONSOLIDATE = object_of(
    {"notice": TEXT, "applied": FLAG},
    considered=COUNT,
    merges=array_of(
        object_of({"kept": nullable(ID), "summary": TEXT, "superseded": array_of(ID)}),
    ),
    moves=array_of(object_of({"id": ID, "from": TEXT, "to": TEXT})),
    skipped=array_of(TEXT),
    undone=COUNT,
    left=COUNT,
    note=NOTE,
)

CONFIGURE = object_of(
    {
        "settings": array_of(
            object_of(
                {
                    "key": TEXT,
                    "value": {},
                    "source": TEXT,
                    "applies": {
                        **TEXT,
                        "description": "`live`, `personal`, or with the daemon's next `restart`.",
                    },
                    "description": TEXT,
                }
            )
        ),
        "changed": FLAG,
        "restart_needed": FLAG,
    },
    path=TEXT,
)

NODE = object_of(
    {
        "node_id": TEXT,
        "uri": URI,
        "level": TEXT,
        "title": TEXT,
        "summary": TEXT,
        "bullets": array_of(object_of({"text": TEXT, "grip_ids": array_of(TEXT), "kind": TEXT})),
        "keywords": array_of(TEXT),
        "start_time_ms": MILLIS,
        "end_time_ms": MILLIS,
    },
    child_node_ids=array_of(TEXT),
    version=COUNT,
    session_id=TEXT,
    project=TEXT,
    work=object_of(
        {
            "sessions": COUNT,
            "prompts": COUNT,
            "commits": COUNT,
            "seconds": COUNT,
            "files": array_of(TEXT),
        }
    ),
    truncated=FLAG,
)

TIMELINE = object_of(
    {
        "notice": TEXT,
        "node": {**NODE, "type": ["object", "null"]},
        "children": array_of(NODE),
        "continuation_token": MORE,
    },
    note=NOTE,
)

EVENT = object_of(
    {
        "event_id": TEXT,
        "session_id": TEXT,
        "timestamp_ms": MILLIS,
        "event_type": TEXT,
        "role": TEXT,
        "text": TEXT,
        "metadata": {"type": "object"},
    },
    truncated=FLAG,
)

EXPAND = object_of(
    {
        "notice": TEXT,
        "grip": object_of(
            {"grip_id": TEXT, "uri": URI, "excerpt": TEXT, "timestamp_ms": MILLIS},
            toc_node_id=TEXT,
        ),
        "events_before": array_of(EVENT),
        "excerpt_events": array_of(EVENT),
        "events_after": array_of(EVENT),
    },
    note=NOTE,
)

FORGET = object_of(
    {
        "forgotten": array_of(object_of({"memory_id": ID, "uri": URI})),
        "found_in": {
            **array_of(TEXT),
            "description": "Where it was still found; empty if it is gone.",
        },
        "unreachable": {**array_of(TEXT), "description": "Copies that are out of reach."},
    },
    waits_until_ms={
        "type": "integer",
        "description": "A team's server erases them then, unless their person keeps them.",
    },
)
