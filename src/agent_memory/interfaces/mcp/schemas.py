"""What tools tell, as JSON Schema."""

from collections.abc import Mapping
from typing import Any

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
    "description": "Pass it on as continuation_token for what follows.",
}
NOTE: Schema = {"type": "string", "description": "What was left out, and how to get it."}
COUNTS: Schema = {"type": "object", "additionalProperties": {"type": "integer"}}


def maybe(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def many(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def told(required: Mapping[str, Schema], **further: Schema) -> Schema:
    """An object with these, and perhaps with further ones."""
    return {
        "type": "object",
        "properties": {**required, **further},
        "required": list(required),
    }


CAPTURE = told(
    {
        "success": FLAG,
        "memory_id": ID,
        "uri": URI,
        "namespace": TEXT,
        "domain": TEXT,
        "indexed": FLAG,
        "created": {**FLAG, "description": "False where the same was there already."},
        "warning": maybe(TEXT),
    }
)

RESULT = told(
    {
        "kind": TEXT,
        "id": TEXT,
        "uri": maybe(URI),
        "score": {**SHARE, "description": "Relevance, from 0 to 1; 0 where all are listed."},
        "summary": TEXT,
        "timestamp": TEXT,
    },
    timestamp_ms=MILLIS,
    namespace=TEXT,
    domain=TEXT,
    tags=many(TEXT),
    spec=maybe(TEXT),
    status=TEXT,
    relates_to=many(TEXT),
    content=TEXT,
    text=TEXT,
    event_id=maybe(TEXT),
    last_event_id=maybe(TEXT),
    session_id=maybe(TEXT),
    grip_id=maybe(TEXT),
    node_id=maybe(TEXT),
    project=maybe(TEXT),
    role=TEXT,
    speaker=maybe(TEXT),
    truncated=FLAG,
    score_parts={"type": "object", "additionalProperties": {"type": "number"}},
)

RECALL = told(
    {
        "notice": TEXT,
        "results": many(RESULT),
        "total": COUNT,
        "warning": maybe(TEXT),
        "continuation_token": MORE,
    },
    note=NOTE,
)

STATUS = told(
    {
        "total": COUNT,
        "by_domain": COUNTS,
        "by_namespace": COUNTS,
        "by_tier": COUNTS,
        "by_status": COUNTS,
        "index_bytes": COUNT,
        "last_sync": maybe(TEXT),
        "notes_waiting": COUNT,
        "feature_tier": TEXT,
        "project": maybe(TEXT),
        "version": TEXT,
    }
)

SYNC = told(
    {
        "success": FLAG,
        "domains": many(
            told(
                {
                    "domain": TEXT,
                    "imported": COUNT,
                    "written": COUNT,
                    "moved": COUNT,
                    "fetched": FLAG,
                    "pushed": FLAG,
                    "problems": many({"type": "object"}),
                }
            )
        ),
        "failed": many(told({"domain": TEXT, "reason": TEXT})),
        "warnings": many(TEXT),
    }
)

CONSOLIDATE = told(
    {"notice": TEXT, "applied": FLAG},
    considered=COUNT,
    merges=many(
        told({"kept": maybe(ID), "summary": TEXT, "superseded": many(ID)}),
    ),
    moves=many(told({"id": ID, "from": TEXT, "to": TEXT})),
    skipped=many(TEXT),
    undone=COUNT,
    left=COUNT,
    note=NOTE,
)

CONFIGURE = told(
    {
        "settings": many(
            told(
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

NODE = told(
    {
        "node_id": TEXT,
        "uri": URI,
        "level": TEXT,
        "title": TEXT,
        "summary": TEXT,
        "bullets": many(told({"text": TEXT, "grip_ids": many(TEXT)})),
        "keywords": many(TEXT),
        "start_time_ms": MILLIS,
        "end_time_ms": MILLIS,
    },
    child_node_ids=many(TEXT),
    version=COUNT,
    truncated=FLAG,
)

TIMELINE = told(
    {
        "notice": TEXT,
        "node": {**NODE, "type": ["object", "null"]},
        "children": many(NODE),
        "continuation_token": MORE,
    },
    note=NOTE,
)

EVENT = told(
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

EXPAND = told(
    {
        "notice": TEXT,
        "grip": told(
            {"grip_id": TEXT, "uri": URI, "excerpt": TEXT, "timestamp_ms": MILLIS},
            toc_node_id=TEXT,
        ),
        "events_before": many(EVENT),
        "excerpt_events": many(EVENT),
        "events_after": many(EVENT),
    },
    note=NOTE,
)

FORGET = told(
    {
        "forgotten": many(told({"memory_id": ID, "uri": URI})),
        "found_in": {
            **many(TEXT),
            "description": "Where it could still be found; empty where it is gone.",
        },
        "unreachable": {**many(TEXT), "description": "Copies that are out of reach."},
    }
)
