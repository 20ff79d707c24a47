"""Answer `memory hook`: parse the input, handle the call, render the answer. Never fail."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.features.hooks.services.agent_calls import AgentCalls
from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.interfaces.command_socket.calls import CommandCall, HookAnswer
from agent_memory.interfaces.hooks import inputs, outputs
from agent_memory.interfaces.hooks.inputs import Contract, Delivery
from agent_memory.interfaces.observing import FAILED, OK, REFUSED, Observer
from agent_memory.kernel import tracing
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import AgentMemoryError, ContentBlocked, InvalidInput
from agent_memory.kernel.tracing import Interface

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class HookAnswerer:
    handling: HookHandling
    version: str
    observer: Observer
    calls: AgentCalls
    now: Callable[[], int]

    def answer(self, call: CommandCall, payload: bytes) -> HookAnswer:
        """Return the answer for the agent. It is empty if the call could not be recorded now: it
        belongs in the spool."""
        delivery = Delivery.parse_frame(call, payload, self.now)
        if delivery.name == inputs.DRAIN:
            self.handling.drain_soon()
            return HookAnswer(outputs.render_failure(Contract.AGENT, ""))
        started = self.observer.begin()
        answered, hook = self._answer(delivery)
        answer, problem, _ = answered
        outcome = OK if not problem else REFUSED if answer else FAILED
        seconds = self.observer.end(
            started,
            Interface.HOOK,
            "unread" if hook is None else hook.kind.value,
            outcome,
            None if hook is None else tracing.from_name(hook.session),
        )
        if hook is not None and hook.kind is not HookKind.OTHER:
            self.calls.count(hook.about.get("agent", ""), seconds, failed=outcome != OK)
        return answered

    def _answer(self, delivery: Delivery) -> tuple[HookAnswer, HookCall | None]:
        call: HookCall | None = None
        contract = inputs.guess_contract(delivery.data)
        try:
            request = inputs.parse_delivery(delivery)
            contract, call = request.contract, self.handling.recording.clean_ids(request.call)
            if request.event == inputs.CHECK:
                return HookAnswer(outputs.render_check(self.version)), call
            caller = Caller(folder=delivery.folder, environ=delivery.environ)
            reply = self.handling.handle(call, caller, outputs.get_format(contract))
            answer = HookAnswer(outputs.render_answer(request, reply.context))
            if outputs.takes_context(request, reply.context):
                answer = answer._replace(on_delivered=reply.on_delivered)
            return answer, call
        except (InvalidInput, ContentBlocked) as exc:
            log.warning("hook.refused", hook=delivery.name, error=str(exc))
            return HookAnswer(outputs.render_failure(contract, str(exc)), str(exc)), call
        except AgentMemoryError as exc:
            log.warning("hook.not_recorded", hook=delivery.name, error=str(exc))
            return HookAnswer(b"", str(exc)), call
        except Exception:
            log.exception("hook.failed", hook=delivery.name)
            return HookAnswer(b"", "the hook failed in the daemon; its log says why"), call
