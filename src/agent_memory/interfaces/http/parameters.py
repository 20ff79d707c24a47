"""Unknown query parameters are refused: a typo would otherwise select everything."""

from collections.abc import Iterable, Sequence

from fastapi import Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute

from agent_memory.kernel import spelling
from agent_memory.kernel.errors import InvalidInput


async def refuse_unknown(request: Request) -> None:
    """Raise InvalidInput if the query has a parameter that the route does not know."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    check_known(request.query_params, _list_parameters(route))


def check_known(names: Iterable[str], known: Sequence[str]) -> None:
    """Raise InvalidInput if a name is not known."""
    for name in names:
        if name in known:
            continue
        nearest = spelling.suggest_nearest(name, known) or _find_longer(name, known)
        rest = f"it takes {', '.join(known)}" if known else "it takes none"
        raise InvalidInput(f"unknown parameter {name[:100]!r}{nearest or f'; {rest}'}")


def _find_longer(name: str, known: Sequence[str]) -> str:
    """Suggest the parameter that an abbreviation stands for, such as `q`."""
    longer = next((each for each in known if each.startswith(name)), None)
    return f"; did you mean {longer!r}?" if longer else ""


def _list_parameters(route: APIRoute) -> tuple[str, ...]:
    elsewhere = (params.Path, params.Header, params.Cookie)
    fields = get_flat_params(route.dependant)
    return tuple(each.alias for each in fields if not isinstance(each.field_info, elsewhere))
