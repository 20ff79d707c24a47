"""The models of REST, for the OpenAPI document and the validation of requests."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict

from agent_memory.kernel.structs import MAX_LIMIT, MAX_OFFSET

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="The most items to return.")]
Offset = Annotated[int, Query(ge=0, le=MAX_OFFSET, description="Items to skip.")]


class ResponseModel(BaseModel):
    """A response body."""


class RequestModel(BaseModel):
    """A request body. Unknown fields are refused, so that a typo does not go unnoticed."""

    model_config = ConfigDict(extra="forbid")


def show_example(example: dict[str, Any]) -> ConfigDict:
    """Show an example in the OpenAPI document."""
    return ConfigDict(json_schema_extra={"examples": [example]})


class Problem(ResponseModel):
    detail: Any
