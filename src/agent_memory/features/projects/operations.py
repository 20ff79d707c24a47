"""Operations on projects, and whether hooks record there."""

from msgspec import Struct

from agent_memory.features.hooks import recording_settings
from agent_memory.features.hooks.operations import Decision, find_file, show_path
from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.features.projects.services.projects import ProjectOverview, ProjectSummary
from agent_memory.kernel.access import Role
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.operations import operation
from agent_memory.kernel.structs import PageRequest, copy_fields

PATH = "/api/v1/projects"


class ProjectAnswer(Struct, frozen=True, kw_only=True):
    """`recording` is null if no folder of the project is known. `shared` tells that its memories
    are in the git notes of a clone; `pending` changes are not in the notes yet."""

    name: str
    domain: str
    folders: list[str]
    recording: Decision | None
    origin: str | None
    shared: bool
    remote: str | None
    last_sync_ms: int | None
    pending: int
    sessions: int
    events: int
    memories: int
    to_review: int
    last_ms: int | None

    @classmethod
    def from_summary(cls, project: ProjectSummary) -> "ProjectAnswer":
        recording = project.recording
        return copy_fields(
            cls,
            project,
            folders=[show_path(folder) for folder in project.folders],
            recording=None if recording is None else Decision.from_consent(recording),
            origin=show_path(project.origin) or None,
            shared=project.is_shared,
            remote=project.remote or None,
        )


class ProjectPage(Struct, frozen=True, kw_only=True):
    """`others` are the memories of no project: your own, and those of the organization."""

    items: list[ProjectAnswer]
    total: int
    others: list[ProjectAnswer]


class ProjectName(Struct, frozen=True, kw_only=True):
    name: str


class ProjectRecording(ProjectName, frozen=True, kw_only=True):
    recorded: bool


@operation("projects.list", role=Role.ADMIN, http=f"GET {PATH}/")
def list_projects(projects: ProjectOverview, caller: Caller, request: PageRequest) -> ProjectPage:
    """List projects, the last active first."""
    page, total = projects.list_page(caller.environ, limit=request.limit, offset=request.offset)
    return ProjectPage(
        items=list(map(ProjectAnswer.from_summary, page)),
        total=total,
        others=list(map(ProjectAnswer.from_summary, projects.list_others())),
    )


@operation("projects.read", role=Role.ADMIN, http=f"GET {PATH}/{{name:path}}/")
def read_project(projects: ProjectOverview, caller: Caller, request: ProjectName) -> ProjectAnswer:
    """Read one project."""
    return ProjectAnswer.from_summary(projects.read(request.name, caller.environ))


@operation(
    "projects.switch_recording",
    http=f"PUT {PATH}/{{name:path}}/recording/",
    example={"recorded": False},
)
def switch_recording(
    projects: ProjectOverview, handling: HookHandling, caller: Caller, request: ProjectRecording
) -> ProjectAnswer:
    """Switch the recording of a project on or off.

    Hooks record it, or not, from their next call on. What was recorded before stays. Only the page
    may switch it on.
    """
    if request.recorded:
        caller.require_person("allow recording", "memory on")
    folders, file = projects.find_folders(request.name), find_file(caller)
    if request.recorded:
        recording_settings.allow_folders(handling, file, folders, caller.environ)
    else:
        recording_settings.exclude_folders(handling.consent, file, folders)
    return ProjectAnswer.from_summary(projects.read(request.name, caller.environ))
