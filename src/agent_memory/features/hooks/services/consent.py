"""Recording consent: ask the rule, with what is on disk now. Hooks, with and without a daemon,
imports and `memory status` all ask here."""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent_memory.features.hooks.model import consent
from agent_memory.features.hooks.model.consent import (
    Consent,
    ConsentReason,
    ConsentRules,
    IgnoreRules,
    Pause,
    ProjectChoice,
)
from agent_memory.features.hooks.model.hooks import HookCall
from agent_memory.features.hooks.model.tool_use import ToolUse
from agent_memory.features.hooks.ports import LoadOptions, PauseStore, ProjectPaths
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.text import globs
from agent_memory.platform.ports import Clock

# The folder where a session of Claude Code began, also after the agent has gone to another one.
PROJECT_VARIABLE = "CLAUDE_PROJECT_DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingConsent:
    load_options: LoadOptions
    pauses: PauseStore
    folders: ProjectPaths
    clock: Clock

    def check_call(
        self, call: HookCall, caller: str, environ: Mapping[str, str], rules: ConsentRules
    ) -> Consent:
        """Check a hook call: its folder, those around it, and the files that its tool used.

        `caller` is the folder of the process that makes the call.
        """
        folder = call.folder or caller
        others = {caller, environ.get(PROJECT_VARIABLE, "")} - {folder, ""}
        decision = self._decide(folder, others, rules, self.pauses.read())
        if not decision.is_given:
            return decision
        if reason := self.find_ignored(call.use, folder, environ, rules):
            return Consent(reason=ConsentReason.IGNORED, detail=reason)
        return decision

    def check_folder(self, folder: str, environ: Mapping[str, str]) -> Consent:
        """Check whether hooks record in a folder now."""
        rules = self.load_rules(folder, environ)
        return self._decide(folder, set(), rules, self.pauses.read())

    def check_place(self, folder: str, rules: ConsentRules) -> Consent:
        """Check a folder alone, whether or not hooks are paused or switched off."""
        return self._decide(folder, set(), replace(rules, enabled=True), None)

    def load_rules(self, folder: str, environ: Mapping[str, str]) -> ConsentRules:
        return self.load_options(environ, folder).consent

    def find_ignored(
        self, use: ToolUse, folder: str, environ: Mapping[str, str], rules: ConsentRules
    ) -> str:
        """Return what leaves out the use of a tool in a folder: a `.memoryignore`, or a pattern of
        `hooks.exclude`; empty if nothing does."""
        for path in use.list_files():
            names = self.folders.resolve(path, folder)
            if pattern := consent.find_match(rules.exclude, names):
                return pattern
            for name in names:
                stack = self.folders.read_ignore_rules(name)
                if ignoring := consent.find_ignoring(stack, name, folder=False):
                    return ignoring.describe()
        words = use.list_words()
        around = self.folders.read_ignore_rules(folder) if words else []
        for word in words:
            if reason := self._find_ignored_word(word, folder, environ, rules, around):
                return reason
        return ""

    def _find_ignored_word(
        self,
        word: str,
        folder: str,
        environ: Mapping[str, str],
        rules: ConsentRules,
        around: Sequence[IgnoreRules],
    ) -> str:
        """Return what leaves out a command because of one of its words. A word with a `/` may name
        a file or folder anywhere; `around` are the rules for a word that does not."""
        if "/" not in word:
            name = posixpath.normpath(posixpath.join(folder, word))
            for is_folder in (False, True):
                if ignoring := consent.find_ignoring(around, name, folder=is_folder):
                    return ignoring.describe()
            return ""
        if word.startswith("~/"):
            word = posixpath.join(environ.get("HOME") or "/", word[2:])
        names = self.folders.resolve(word, folder)
        if pattern := consent.find_match(rules.exclude, names):
            return pattern
        for name in names:
            stack = self.folders.read_ignore_rules(name)
            if ignoring := consent.find_all_ignoring(stack, name):
                return ignoring.describe()
        return ""

    def build_pattern(self, folder: str) -> tuple[str, str]:
        """Return the root of a folder's project, and the pattern for it. Of a worktree it is the
        main one. Raises InvalidInput."""
        root = self.folders.find_root(folder)
        pattern = globs.escape_folder(root)
        if not globs.is_folder_glob(pattern):
            raise InvalidInput(f"the path has more than {globs.MAX_CHARS:,} characters: {root}")
        return root, pattern

    def choose(self, folder: str, environ: Mapping[str, str]) -> ProjectChoice:
        """Return what has to change so that a folder's project is recorded.

        Raises InvalidInput if a pattern that covers other folders too excludes it.
        """
        root, pattern = self.build_pattern(folder)
        rules, names = self.load_rules(root, environ), self.folders.list_names(folder)
        parts = consent.split_path(root)
        unwanted = {
            each.text for each in rules.exclude if each.text == pattern or parts in each.forms
        }
        others = [each for each in rules.exclude if each.text not in unwanted]
        if wider := consent.find_match(others, (*names.own, *names.claimed)):
            raise InvalidInput(
                f"{wider} in hooks.exclude covers more than {root}: change that list, with"
                " `memory config set hooks.exclude ...` or in the file of `memory config path`"
            )
        is_chosen = not rules.opt_in or consent.find_match(rules.projects, names.own)
        return ProjectChoice(
            root=root, unwanted=frozenset(unwanted), missing="" if is_chosen else pattern
        )

    def read_pause(self) -> Pause | None:
        """Return the pause that holds now, or None."""
        pause = self.pauses.read()
        return None if pause is None or pause.is_over(self.clock.now()) else pause

    def pause(self, length_ms: int | None) -> Pause:
        """Pause all recording for a time, or until `resume`. It replaces an earlier pause."""
        until = None if length_ms is None else Millis(self.clock.now() + length_ms)
        self.pauses.write(until)
        return Pause(until_ms=until)

    def resume(self) -> bool:
        """End the pause. Return whether there was one."""
        before = self.read_pause()
        self.pauses.remove()
        return before is not None

    def _decide(
        self, folder: str, others: set[str], rules: ConsentRules, pause: Pause | None
    ) -> Consent:
        names = self.folders.list_names(folder)
        around = [self.folders.list_names(other) for other in others] if rules.exclude else []
        decision = consent.decide(rules, names, around, pause, self.clock.now())
        if not decision.is_given:
            return decision
        for name in names.own:
            stack = self.folders.read_ignore_rules(name)
            if ignoring := consent.find_all_ignoring(stack, name):
                return Consent(reason=ConsentReason.IGNORED, detail=ignoring.describe())
        return decision
