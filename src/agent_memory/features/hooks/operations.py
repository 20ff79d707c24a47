"""Operations on the recording by hooks.

A program may tighten what is recorded. Only a person may loosen it: an agent that has a key must
not switch its own recording on.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from agent_memory import config
from agent_memory.features.hooks import recording_settings
from agent_memory.features.hooks.model.consent import Consent, ConsentReason
from agent_memory.features.hooks.services.consent import RecordingConsent
from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.operations import operation

PATH = "/api/v1/recording"
TAG = "projects"
MAX_PAUSE_SECONDS = 10 * 366 * 86_400

Mode = Literal["all", "opt-in"]


class Decision(Struct, frozen=True, kw_only=True):
    """Whether hooks record in a folder, and why."""

    recorded: bool
    reason: ConsentReason
    detail: str
    until_ms: int | None

    @classmethod
    def from_consent(cls, consent: Consent) -> "Decision":
        return cls(
            recorded=consent.is_given,
            reason=consent.reason,
            detail=show_path(consent.detail),
            until_ms=consent.until_ms,
        )


class RecordingState(Struct, frozen=True, kw_only=True):
    """Where hooks record: `all` folders, or with `opt-in` those that you chose."""

    enabled: bool
    mode: Mode
    paused: bool
    until_ms: int | None
    problem: str | None


class ResumedRecording(RecordingState, frozen=True, kw_only=True):
    was_paused: bool


class RecordingMode(Struct, frozen=True, kw_only=True):
    mode: Mode


class PauseLength(Struct, frozen=True, kw_only=True):
    seconds: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_PAUSE_SECONDS)] | None,
        Meta(description="null: until someone resumes."),
    ] = None


class FolderChange(Struct, frozen=True, kw_only=True):
    config_file: str  # of the user, which is changed


class FolderRecording(Struct, frozen=True, kw_only=True):
    """`folder` is the root of the project that the caller's folder belongs to."""

    folder: str
    recording: Decision


@operation("recording.read", http=f"GET {PATH}/", tag=TAG)
def read_recording(consent: RecordingConsent, caller: Caller) -> RecordingState:
    """Show where hooks record."""
    return RecordingState(**_read_state(consent, caller))


@operation("recording.change_mode", http=f"PATCH {PATH}/", tag=TAG, example={"mode": "opt-in"})
def change_mode(
    consent: RecordingConsent, caller: Caller, request: RecordingMode
) -> RecordingState:
    """Record everywhere, or opt in.

    With `opt-in`, hooks record only projects that you switch on. Only the page may change it.
    """
    caller.require_person("change hooks.mode", "memory config set hooks.mode")
    recording_settings.set_mode(find_file(caller), request.mode)
    return RecordingState(**_read_state(consent, caller))


@operation("recording.pause", http=f"POST {PATH}/pause/", tag=TAG, example={"seconds": 3600})
def pause_recording(
    consent: RecordingConsent, caller: Caller, request: PauseLength
) -> RecordingState:
    """Pause all recording."""
    consent.pause(None if request.seconds is None else request.seconds * 1000)
    return RecordingState(**_read_state(consent, caller))


@operation("recording.resume", http=f"POST {PATH}/resume/", tag=TAG)
def resume_recording(handling: HookHandling, caller: Caller) -> ResumedRecording:
    """End the pause.

    Hooks record again. Only the page may end a pause.
    """
    caller.require_person("end a pause", "memory resume")
    was_paused = recording_settings.resume(handling)
    return ResumedRecording(was_paused=was_paused, **_read_state(handling.consent, caller))


@operation("recording.check_folder")
def check_folder(consent: RecordingConsent, caller: Caller) -> Decision:
    """Tell whether hooks record in the caller's folder."""
    return _check(consent, caller)


@operation("recording.exclude_folder")
def exclude_folder(
    consent: RecordingConsent, caller: Caller, request: FolderChange
) -> FolderRecording:
    """Record nothing in the project of the caller's folder."""
    (root,) = recording_settings.exclude_folders(
        consent, Path(request.config_file), [caller.folder]
    )
    return FolderRecording(folder=root, recording=_check(consent, caller))


@operation("recording.allow_folder")
def allow_folder(handling: HookHandling, caller: Caller, request: FolderChange) -> FolderRecording:
    """Record in the project of the caller's folder."""
    caller.require_person("allow recording", "memory on")
    (root,) = recording_settings.allow_folders(
        handling, Path(request.config_file), [caller.folder], caller.environ
    )
    return FolderRecording(folder=root, recording=_check(handling.consent, caller))


def _check(consent: RecordingConsent, caller: Caller) -> Decision:
    return Decision.from_consent(consent.check_folder(caller.folder, caller.environ))


def _read_state(consent: RecordingConsent, caller: Caller) -> dict[str, Any]:
    rules, pause = consent.load_rules("/", caller.environ), consent.read_pause()
    return {
        "enabled": rules.enabled,
        "mode": "opt-in" if rules.opt_in else "all",
        "paused": pause is not None,
        "until_ms": None if pause is None else pause.until_ms,
        "problem": (pause and pause.problem) or rules.unreadable or None,
    }


def find_file(caller: Caller) -> Path:
    """Return the caller's config file."""
    return config.folders(caller.environ).config_file


def show_path(path: str) -> str:
    """Replace what UTF-8 cannot encode: a path need not be valid text."""
    return path.encode(errors="replace").decode()
