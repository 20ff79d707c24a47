"""`/api/v1/memories/`: facts, episodes, procedures and users."""

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Response

from agent_memory.features.knowledge.model.facts import Claim
from agent_memory.features.knowledge.services.facts import Correction
from agent_memory.features.knowledge.services.knowledge import K, RecordService
from agent_memory.interfaces import knowledge_json
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import MISSING, PageCache
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.models import (
    EpisodeAnswer,
    EpisodeChange,
    EpisodeCreate,
    FactAnswer,
    FactChange,
    FactCreate,
    Filter,
    FormerAnswer,
    Ids,
    Items,
    Limit,
    Offset,
    ProcedureAnswer,
    ProcedureChange,
    ProcedureCreate,
    UserAnswer,
    UserChange,
    UserCreate,
)

# Routes answer with bytes of their own: `response_model` is what the page shows.


def build_routers(parts: HttpDependencies) -> tuple[APIRouter, ...]:
    """Side by side: each that is inside another costs every request some 20 us."""
    return _facts(parts), _episodes(parts), _procedures(parts), _users(parts)


def _facts(parts: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories/facts", tags=["facts"])
    run, facts = parts.bridge.run, parts.facts
    pages = PageCache(facts.version, run)

    @routes.get("/", summary="List facts, the newest first", response_model=Items[FactAnswer])
    async def list_facts(
        scope: Filter = None, fact_type: Filter = None, limit: Limit = 50, offset: Offset = 0
    ) -> Response:
        return await pages.render(
            (scope, fact_type, limit, offset),
            lambda: facts.page(scope=scope, fact_type=fact_type, limit=limit, offset=offset),
            knowledge_json.fact_json,
        )

    @routes.post("/", summary="Claim a fact", status_code=201, response_model=FactAnswer)
    async def claim_fact(given: FactCreate) -> Response:
        claim = Claim(**given.model_dump())
        return answers.render_json(
            knowledge_json.fact_json(await run(lambda: facts.claim(claim))), 201
        )

    @routes.post("/batch-delete/", summary="Delete facts", status_code=204)
    async def delete_facts(given: Ids) -> Response:
        await run(lambda: facts.remove(given.ids))
        return answers.render_empty()

    @routes.get("/{name}/", summary="Read a fact", response_model=FactAnswer, responses=MISSING)
    async def read(name: str) -> Response:
        return answers.render_json(knowledge_json.fact_json(await run(lambda: facts.read(name))))

    @routes.patch(
        "/{name}/", summary="Correct a fact", response_model=FactAnswer, responses=MISSING
    )
    async def correct_fact(name: str, given: FactChange) -> Response:
        correction = Correction(**given.dump_set_fields())
        return answers.render_json(
            knowledge_json.fact_json(await run(lambda: facts.correct(name, correction)))
        )

    @routes.get(
        "/{name}/history/",
        summary="The values that a fact had before, the latest first",
        response_model=Items[FormerAnswer],
        responses=MISSING,
    )
    async def history(name: str, limit: Limit = 50, offset: Offset = 0) -> Response:
        found = await run(lambda: facts.history(name, limit=limit, offset=offset))
        return answers.render_page(found, knowledge_json.former_json)

    return routes


def _episodes(parts: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories/episodes", tags=["episodes"])
    run, knowledge = parts.bridge.run, parts.knowledge
    shelf = knowledge.episodes
    pages = PageCache(shelf.version, run)

    @routes.get("/", summary="List episodes, the newest first", response_model=Items[EpisodeAnswer])
    async def list_episodes(
        agent_id: Filter = None, limit: Limit = 50, offset: Offset = 0
    ) -> Response:
        return await pages.render(
            (agent_id, limit, offset),
            lambda: shelf.page(agent_id=agent_id, limit=limit, offset=offset),
            knowledge_json.episode_json,
        )

    @routes.post("/", summary="Add an episode", status_code=201, response_model=EpisodeAnswer)
    async def add_episode(given: EpisodeCreate) -> Response:
        fields = given.model_dump(exclude={"started_at", "ended_at"})
        times = {
            "started_ms": knowledge_json.parse_millis("started_at", given.started_at),
            "ended_ms": knowledge_json.parse_millis("ended_at", given.ended_at),
        }
        made = await run(lambda: knowledge.add_episode({**fields, **times}))
        return answers.render_json(knowledge_json.episode_json(made), 201)

    _common(routes, parts, shelf, knowledge_json.episode_json, EpisodeAnswer)

    @routes.patch(
        "/{name}/", summary="Change an episode", response_model=EpisodeAnswer, responses=MISSING
    )
    async def change_episode(name: str, given: EpisodeChange) -> Response:
        made = await run(lambda: knowledge.change_episode(name, given.dump_set_fields()))
        return answers.render_json(knowledge_json.episode_json(made))

    return routes


def _procedures(parts: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories/procedures", tags=["procedures"])
    run, knowledge = parts.bridge.run, parts.knowledge
    shelf = knowledge.procedures
    pages = PageCache(shelf.version, run)

    @routes.get(
        "/", summary="List procedures, the newest first", response_model=Items[ProcedureAnswer]
    )
    async def list_procedures(
        agent_id: Filter = None, limit: Limit = 50, offset: Offset = 0
    ) -> Response:
        return await pages.render(
            (agent_id, limit, offset),
            lambda: shelf.page(agent_id=agent_id, limit=limit, offset=offset),
            knowledge_json.procedure_json,
        )

    @routes.post("/", summary="Add a procedure", status_code=201, response_model=ProcedureAnswer)
    async def add_procedure(given: ProcedureCreate) -> Response:
        fields = given.model_dump() | {"steps": tuple(given.steps)}
        made = await run(lambda: knowledge.add_procedure(fields))
        return answers.render_json(knowledge_json.procedure_json(made), 201)

    _common(routes, parts, shelf, knowledge_json.procedure_json, ProcedureAnswer)

    @routes.patch(
        "/{name}/", summary="Change a procedure", response_model=ProcedureAnswer, responses=MISSING
    )
    async def change_procedure(name: str, given: ProcedureChange) -> Response:
        made = await run(lambda: knowledge.change_procedure(name, given.dump_set_fields()))
        return answers.render_json(knowledge_json.procedure_json(made))

    return routes


def _users(parts: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories/users", tags=["users"])
    run, knowledge = parts.bridge.run, parts.knowledge
    shelf = knowledge.users
    pages = PageCache(shelf.version, run)

    @routes.get("/", summary="List users, the newest first", response_model=Items[UserAnswer])
    async def list_users(limit: Limit = 50, offset: Offset = 0) -> Response:
        return await pages.render(
            (limit, offset),
            lambda: shelf.page(limit=limit, offset=offset),
            knowledge_json.user_json,
        )

    @routes.post(
        "/",
        summary="Add a user, or what is known of one",
        status_code=201,
        response_model=UserAnswer,
    )
    async def add_user(given: UserCreate) -> Response:
        fields = given.dump_set_fields()
        canonical_id = fields.pop("canonical_id")
        made = await run(lambda: knowledge.add_user(canonical_id, fields))
        return answers.render_json(knowledge_json.user_json(made), 201)

    _common(routes, parts, shelf, knowledge_json.user_json, UserAnswer)

    @routes.patch("/{name}/", summary="Change a user", response_model=UserAnswer, responses=MISSING)
    async def change_user(name: str, given: UserChange) -> Response:
        made = await run(lambda: shelf.change(name, given.dump_set_fields()))
        return answers.render_json(knowledge_json.user_json(made))

    return routes


def _common(
    routes: APIRouter,
    parts: HttpDependencies,
    shelf: RecordService[K],
    shown: Callable[[K], Mapping[str, Any]],
    model: type[Any],
) -> None:
    """What is the same of each kind."""

    @routes.post("/batch-delete/", summary="Delete some", status_code=204)
    async def delete_records(given: Ids) -> Response:
        await parts.bridge.run(lambda: shelf.remove(given.ids))
        return answers.render_empty()

    @routes.get("/{name}/", summary="Read one", response_model=model, responses=MISSING)
    async def read(name: str) -> Response:
        return answers.render_json(shown(await parts.bridge.run(lambda: shelf.read(name))))
