"""The table of contents as JSON."""

from typing import Any

import msgspec

from agent_memory.features.toc.model.highlights import Work
from agent_memory.features.toc.model.toc import TocNode
from agent_memory.features.toc.operations import (
    WorkDone,
    describe_expansion,
    describe_node,
)
from agent_memory.features.toc.services.contents import Expansion


def node_json(node: TocNode) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(describe_node(node))
    return found


def work_json(work: Work) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(WorkDone.from_work(work))
    return found


def expansion_json(expansion: Expansion) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(describe_expansion(expansion, ""))
    return found
