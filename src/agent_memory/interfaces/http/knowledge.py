"""`/api/v1/memories/`: facts, episodes, procedures and users."""

from typing import Any

from fastapi import APIRouter, Response

from agent_memory.features.knowledge.model.facts import Claim
from agent_memory.features.knowledge.services.facts import Correction
from agent_memory.features.knowledge.services.knowledge import K, RecordService
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import MISSING, RecordRenderer
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
    ProcedureUse,
    UserAnswer,
    UserChange,
    UserCreate,
)
from agent_memory.interfaces.knowledge_json import (
    episode_json,
    fact_json,
    former_json,
    parse_millis,
    procedure_json,
    user_json,
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
    renderer = RecordRenderer(run, facts, fact_json)

    @routes.get("/", summary="List facts, the newest first", response_model=Items[FactAnswer])
    async def list_facts(
        scope: Filter = None, fact_type: Filter = None, limit: Limit = 50, offset: Offset = 0
    ) -> Response:
        return await renderer.render_page(
            scope=scope, fact_type=fact_type, limit=limit, offset=offset
        )

    @routes.post("/", summary="Claim a fact", status_code=201, response_model=FactAnswer)
    async def claim_fact(fact: FactCreate) -> Response:
        return await renderer.render(lambda: facts.claim(Claim(**fact.model_dump())), 201)

    @routes.post("/batch-delete/", summary="Delete facts", status_code=204)
    async def delete_facts(batch: Ids) -> Response:
        await run(lambda: facts.remove(batch.ids))
        return answers.render_empty()

    @routes.get("/{name}/", summary="Read a fact", response_model=FactAnswer, responses=MISSING)
    async def read(name: str) -> Response:
        return await renderer.render(lambda: facts.read(name))

    @routes.patch(
        "/{name}/", summary="Correct a fact", response_model=FactAnswer, responses=MISSING
    )
    async def correct_fact(name: str, change: FactChange) -> Response:
        correction = Correction(**change.dump_set_fields())
        return await renderer.render(lambda: facts.correct(name, correction))

    @routes.get(
        "/{name}/history/",
        summary="List the earlier values of a fact, the latest first",
        response_model=Items[FormerAnswer],
        responses=MISSING,
    )
    async def history(name: str, limit: Limit = 50, offset: Offset = 0) -> Response:
        page = await run(lambda: facts.history(name, limit=limit, offset=offset))
        return answers.render_page(page, former_json)

    return routes


def _episodes(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories/episodes", tags=["episodes"])
    knowledge = dependencies.services.knowledge
    renderer = RecordRenderer(dependencies.bridge.run, knowledge.episodes, episode_json)

    @routes.get("/", summary="List episodes, the newest first", response_model=Items[EpisodeAnswer])
    async def list_episodes(
        agent_id: Filter = None, limit: Limit = 50, offset: Offset = 0
    ) -> Response:
        return await renderer.render_page(agent_id=agent_id, limit=limit, offset=offset)

    @routes.post("/", summary="Add an episode", status_code=201, response_model=EpisodeAnswer)
    async def add_episode(episode: EpisodeCreate) -> Response:
        fields = episode.model_dump(exclude={"started_at", "ended_at"})
        fields["started_ms"] = parse_millis("started_at", episode.started_at)
        fields["ended_ms"] = parse_millis("ended_at", episode.ended_at)
        return await renderer.render(lambda: knowledge.add_episode(fields), 201)

    _add_common(routes, dependencies, knowledge.episodes, renderer, EpisodeAnswer)

    @routes.patch(
        "/{name}/", summary="Change an episode", response_model=EpisodeAnswer, responses=MISSING
    )
    async def change_episode(name: str, change: EpisodeChange) -> Response:
        fields = change.dump_set_fields()
        return await renderer.render(lambda: knowledge.change_episode(name, fields))

    return routes


def _procedures(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories/procedures", tags=["procedures"])
    knowledge = dependencies.services.knowledge
    renderer = RecordRenderer(dependencies.bridge.run, knowledge.procedures, procedure_json)

    @routes.get(
        "/", summary="List procedures, the newest first", response_model=Items[ProcedureAnswer]
    )
    async def list_procedures(
        agent_id: Filter = None, limit: Limit = 50, offset: Offset = 0
    ) -> Response:
        return await renderer.render_page(agent_id=agent_id, limit=limit, offset=offset)

    @routes.post("/", summary="Add a procedure", status_code=201, response_model=ProcedureAnswer)
    async def add_procedure(procedure: ProcedureCreate) -> Response:
        fields = procedure.model_dump() | {"steps": tuple(procedure.steps)}
        return await renderer.render(lambda: knowledge.add_procedure(fields), 201)

    _add_common(routes, dependencies, knowledge.procedures, renderer, ProcedureAnswer)

    @routes.patch(
        "/{name}/", summary="Change a procedure", response_model=ProcedureAnswer, responses=MISSING
    )
    async def change_procedure(name: str, change: ProcedureChange) -> Response:
        fields = change.dump_set_fields()
        return await renderer.render(lambda: knowledge.change_procedure(name, fields))

    @routes.post(
        "/{name}/uses/",
        summary="Count a use of a procedure",
        status_code=201,
        response_model=ProcedureAnswer,
        responses=MISSING,
    )
    async def add_use(name: str, use: ProcedureUse) -> Response:
        return await renderer.render(lambda: knowledge.count_use(name, succeeded=use.success), 201)

    return routes


def _users(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories/users", tags=["users"])
    knowledge = dependencies.services.knowledge
    renderer = RecordRenderer(dependencies.bridge.run, knowledge.users, user_json)

    @routes.get("/", summary="List users, the newest first", response_model=Items[UserAnswer])
    async def list_users(limit: Limit = 50, offset: Offset = 0) -> Response:
        return await renderer.render_page(limit=limit, offset=offset)

    @routes.post(
        "/", summary="Add a user, or update one", status_code=201, response_model=UserAnswer
    )
    async def add_user(user: UserCreate) -> Response:
        fields = user.dump_set_fields()
        canonical_id = fields.pop("canonical_id")
        return await renderer.render(lambda: knowledge.add_user(canonical_id, fields), 201)

    _add_common(routes, dependencies, knowledge.users, renderer, UserAnswer)

    @routes.patch("/{name}/", summary="Change a user", response_model=UserAnswer, responses=MISSING)
    async def change_user(name: str, change: UserChange) -> Response:
        fields = change.dump_set_fields()
        return await renderer.render(lambda: knowledge.users.change(name, fields))

    return routes


def _add_common(
    routes: APIRouter,
    dependencies: HttpDependencies,
    records: RecordService[K],
    renderer: RecordRenderer[K],
    model: type[Any],
) -> None:
    """Add the routes that all kinds share."""

    @routes.post("/batch-delete/", summary="Delete records", status_code=204)
    async def delete_records(batch: Ids) -> Response:
        await dependencies.bridge.run(lambda: records.remove(batch.ids))
        return answers.render_empty()

    @routes.get("/{name}/", summary="Read a record", response_model=model, responses=MISSING)
    async def read(name: str) -> Response:
        return await renderer.render(lambda: records.read(name))
