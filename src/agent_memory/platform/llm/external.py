"""An OpenAI-compatible server that the daemon does not manage."""

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote_to_bytes, urlsplit, urlunsplit

from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.status import ModelStatus
from agent_memory.platform.llm import health
from agent_memory.platform.llm.leases import Lease

_NO_SUCH_PAGE = frozenset({401, 403, 404, 405, 501})


class ExternalServer:
    """A server that is used, but neither started nor stopped."""

    def __init__(
        self,
        *,
        endpoint: str,
        api_key: str,
        model_dir: str,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = endpoint.strip()
        self._key = api_key.strip()
        self._model_dir = model_dir
        self._health = health.HealthCache(timer)

    @contextmanager
    def lease(self, cancel: CancelToken, /) -> Iterator[Lease]:
        cancel.check()
        yield Lease(url=self._url, key=self._key)

    def status(self) -> ModelStatus:
        address, userinfo = _split_userinfo(self._url)
        return ModelStatus(
            endpoint=address,
            model_dir=self._model_dir,
            healthy=self._health.check(address, lambda: self._answers(address, userinfo)),
        )

    def close(self) -> None:
        """Do nothing: the server is not ours."""

    def _answers(self, address: str, userinfo: str) -> bool:
        base = address.rstrip("/")
        status = health.fetch_status(f"{base.removesuffix('/v1')}/health")
        if status in _NO_SUCH_PAGE:
            api = base if urlsplit(base).path else f"{base}/v1"
            status = health.fetch_status(f"{api}/models", self._headers(userinfo))
        return status == health.OK

    def _headers(self, userinfo: str) -> dict[str, str]:
        """Return the same credentials that a conversation sends."""
        if userinfo:
            user, _, password = userinfo.partition(":")
            credentials = base64.b64encode(unquote_to_bytes(f"{user}:{password}")).decode()
            return {"authorization": f"Basic {credentials}"}
        return {"authorization": f"Bearer {self._key}"} if self._key else {}


def _split_userinfo(url: str) -> tuple[str, str]:
    """Split a URL into the address without credentials, and the credentials."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.rpartition("@")[2], ""
    userinfo, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=host)), userinfo
