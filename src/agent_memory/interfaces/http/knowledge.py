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

# Routes return encoded bytes: `response_model` only serves the OpenAPI document.


def build_routers(dependencies: HttpDependencies) -> tuple[APIRouter, ...]:
    """Build one router per kind. A router inside another would cost each request about 20 us."""
    return (
        _facts(dependencies),
        _episodes(dependencies),
        _procedures(dependencies),
        _users(dependencies),
    )


def _facts(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories/facts", tags=["facts"])
    run, facts = dependencies.bridge.run, dependencies.services.facts
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
    async def claim_fact(fact: FactCreate) -> Response:
        claim = Claim(**fact.model_dump())
        return answers.render_json(
            knowledge_json.fact_json(await run(lambda: facts.claim(claim))), 201
        )

    @routes.post("/batch-delete/", summary="Delete facts", status_code=204)
    async def delete_facts(batch: Ids) -> Response:
        await run(lambda: facts.remove(batch.ids))
        return answers.render_empty()

    @routes.get("/{name}/", summary="Read a fact", response_model=FactAnswer, responses=MISSING)
    async def read(name: str) -> Response:
        return answers.render_json(knowledge_json.fact_json(await run(lambda: facts.read(name))))

    @routes.patch(
        "/{name}/", summary="Correct a fact", response_model=FactAnswer, responses=MISSING
    )
    async def correct_fact(name: str, change: FactChange) -> Response:
        correction = Correction(**change.dump_set_fields())
        return answers.render_json(
            knowledge_json.fact_json(await run(lambda: facts.correct(name, correction)))
        )

    @routes.get(
        "/{name}/history/",
        summary="List the earlier values of a fact, the latest first",
        response_model=Items[FormerAnswer],
        responses=MISSING,
    )
    async def history(name: str, limit: Limit = 50, offset: Offset = 0) -> Response:
        page = await run(lambda: facts.history(name, limit=limit, offset=offset))
        return answers.render_page(page, knowledge_json.former_json)

    return routes


def _episodes(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories/episodes", tags=["episodes"])
    run, knowledge = dependencies.bridge.run, dependencies.services.knowledge
    records = knowledge.episodes
    pages = PageCache(records.version, run)

    @routes.get("/", summary="List episodes, the newest first", response_model=Items[EpisodeAnswer])
    async def list_episodes(
        agent_id: Filter = None, limit: Limit = 50, offset: Offset = 0
    ) -> Response:
        return await pages.render(
            (agent_id, limit, offset),
            lambda: records.page(agent_id=agent_id, limit=limit, offset=offset),
            knowledge_json.episode_json,
        )

    @routes.post("/", summary="Add an episode", status_code=201, response_model=EpisodeAnswer)
    async def add_episode(episode: EpisodeCreate) -> Response:
        fields = episode.model_dump(exclude={"started_at", "ended_at"})
        times = {
            "started_ms": knowledge_json.parse_millis("started_at", episode.started_at),
            "ended_ms": knowledge_json.parse_millis("ended_at", episode.ended_at),
        }
        record = await run(lambda: knowledge.add_episode({**fields, **times}))
        return answers.render_json(knowledge_json.episode_json(record), 201)

    _add_common(routes, dependencies, records, knowledge_json.episode_json, EpisodeAnswer)

    @routes.patch(
        "/{name}/", summary="Change an episode", response_model=EpisodeAnswer, responses=MISSING
    )
    async def change_episode(name: str, change: EpisodeChange) -> Response:
        record = await run(lambda: knowledge.change_episode(name, change.dump_set_fields()))
        return answers.render_json(knowledge_json.episode_json(record))

    return routes


def _procedures(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories/procedures", tags=["procedures"])
    run, knowledge = dependencies.bridge.run, dependencies.services.knowledge
    records = knowledge.procedures
    pages = PageCache(records.version, run)

    @routes.get(
        "/", summary="List procedures, the newest first", response_model=Items[ProcedureAnswer]
    )
    async def list_procedures(
        agent_id: Filter = None, limit: Limit = 50, offset: Offset = 0
    ) -> Response:
        return await pages.render(
            (agent_id, limit, offset),
            lambda: records.page(agent_id=agent_id, limit=limit, offset=offset),
            knowledge_json.procedure_json,
        )

    @routes.post("/", summary="Add a procedure", status_code=201, response_model=ProcedureAnswer)
    async def add_procedure(procedure: ProcedureCreate) -> Response:
        fields = procedure.model_dump() | {"steps": tuple(procedure.steps)}
        record = await run(lambda: knowledge.add_procedure(fields))
        return answers.render_json(knowledge_json.procedure_json(record), 201)

    _add_common(routes, dependencies, records, knowledge_json.procedure_json, ProcedureAnswer)

    @routes.patch(
        "/{name}/", summary="Change a procedure", response_model=ProcedureAnswer, responses=MISSING
    )
    async def change_procedure(name: str, change: ProcedureChange) -> Response:
        record = await run(lambda: knowledge.change_procedure(name, change.dump_set_fields()))
        return answers.render_json(knowledge_json.procedure_json(record))

    return routes


def _users(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories/users", tags=["users"])
    run, knowledge = dependencies.bridge.run, dependencies.services.knowledge
    records = knowledge.users
    pages = PageCache(records.version, run)

    @routes.get("/", summary="List users, the newest first", response_model=Items[UserAnswer])
    async def list_users(limit: Limit = 50, offset: Offset = 0) -> Response:
        return await pages.render(
            (limit, offset),
            lambda: records.page(limit=limit, offset=offset),
            knowledge_json.user_json,
        )

    @routes.post(
        "/",
        summary="Add a user, or update one",
        status_code=201,
        response_model=UserAnswer,
    )
    async def add_user(user: UserCreate) -> Response:
        fields = user.dump_set_fields()
        canonical_id = fields.pop("canonical_id")
        record = await run(lambda: knowledge.add_user(canonical_id, fields))
        return answers.render_json(knowledge_json.user_json(record), 201)

    _add_common(routes, dependencies, records, knowledge_json.user_json, UserAnswer)

    @routes.patch("/{name}/", summary="Change a user", response_model=UserAnswer, responses=MISSING)
    async def change_user(name: str, change: UserChange) -> Response:
        record = await run(lambda: records.change(name, change.dump_set_fields()))
        return answers.render_json(knowledge_json.user_json(record))

    return routes


def _add_common(
    routes: APIRouter,
    dependencies: HttpDependencies,
    records: RecordService[K],
    to_json: Callable[[K], Mapping[str, Any]],
    model: type[Any],
) -> None:
    """Add the routes that all kinds share."""

    @routes.post("/batch-delete/", summary="Delete records", status_code=204)
    async def delete_records(batch: Ids) -> Response:
        await dependencies.bridge.run(lambda: records.remove(batch.ids))
        return answers.render_empty()

    @routes.get("/{name}/", summary="Read a record", response_model=model, responses=MISSING)
    async def read(name: str) -> Response:
        return answers.render_json(
            to_json(await dependencies.bridge.run(lambda: records.read(name)))
        )
