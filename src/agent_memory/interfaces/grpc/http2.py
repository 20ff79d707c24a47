"""The library's side of a connection, with the settings and limits of this server."""

from typing import Any

from jh2.config import H2Configuration
from jh2.connection import H2Connection
from jh2.events import ConnectionTerminated
from jh2.settings import SettingCodes, Settings

from agent_memory.interfaces.grpc.frames import FRAME_BYTES, HEADER_BYTES

MAX_STREAMS = 256  # at once, on one connection: clients queue the others
STREAM_WINDOW = 1 << 20
CONNECTION_WINDOW = 16 << 20

_CLOSED_STREAMS = 4096  # how many are remembered, to ignore frames that come late
_TABLE_BYTES = 4096  # of headers that we have sent: a client may allow any number of them

# `calls.py` validates headers: the library would let values end in the middle, and would close the
# connection instead of the stream.
_CONFIGURATION = H2Configuration(
    client_side=False,
    validate_inbound_headers=False,
    normalize_inbound_headers=False,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)
_SETTINGS = {
    SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
    SettingCodes.MAX_HEADER_LIST_SIZE: HEADER_BYTES,
    SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
    SettingCodes.MAX_FRAME_SIZE: FRAME_BYTES,
}
# Until a client sends others, those of the protocol hold. The library assumes larger ones.
_CLIENT_SETTINGS = {
    SettingCodes.HEADER_TABLE_SIZE: _TABLE_BYTES,
    SettingCodes.INITIAL_WINDOW_SIZE: 65_535,
}
_KNOWN_SETTINGS = frozenset(int(code) for code in SettingCodes)


class _OwnSettings(Settings):  # type: ignore[misc]  # has no types
    """What the client is told. It has no limit of streams for the library, which would close the
    connection: `connection.py` refuses the stream."""

    max_concurrent_streams = 2**32


class Http2(H2Connection):  # type: ignore[misc]  # has no types
    """The state of one connection of a client."""

    MAX_CLOSED_STREAMS = _CLOSED_STREAMS

    def __init__(self) -> None:
        super().__init__(_CONFIGURATION)
        self.local_settings = _OwnSettings(client=False, initial_values=_SETTINGS)
        self.remote_settings = Settings(client=True, initial_values=_CLIENT_SETTINGS)
        self.max_inbound_frame_size = FRAME_BYTES
        self.decoder.max_header_list_size = HEADER_BYTES

    def _receive_settings_frame(self, frame: Any) -> Any:
        """Ignore settings that are unknown, as the protocol asks: the library keeps them all. Keep
        the table of headers small: the library fills what the client allows."""
        frame.settings = {
            code: min(value, _TABLE_BYTES) if code == SettingCodes.HEADER_TABLE_SIZE else value
            for code, value in frame.settings.items()
            if int(code) in _KNOWN_SETTINGS
        }
        return super()._receive_settings_frame(frame)

    def _receive_goaway_frame(self, frame: Any) -> Any:
        """Report that the client opens no more streams. The library would not answer its calls."""
        event = ConnectionTerminated()
        event.error_code = frame.error_code
        event.last_stream_id = frame.last_stream_id
        return [], [event]
