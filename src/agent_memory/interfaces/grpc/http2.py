"""The library's side of a connection, with the settings and limits of this server."""

from typing import Any

from jh2.config import H2Configuration
from jh2.connection import H2Connection
from jh2.events import ConnectionTerminated
from jh2.exceptions import FrameTooLargeError
from jh2.settings import SettingCodes, Settings

MAX_STREAMS = 256  # at once, on one connection: clients queue the others
STREAM_WINDOW = 1 << 20
CONNECTION_WINDOW = 16 << 20

_FRAME_BYTES = 128 << 10
_FRAME_HEAD_BYTES = 9
_HEADER_BYTES = 64 << 10
_CLOSED_STREAMS = 4096  # how many are remembered, to ignore frames that come late

# Headers are read by name and never forwarded, so validating them would change nothing.
_CONFIGURATION = H2Configuration(
    client_side=False,
    validate_inbound_headers=False,
    normalize_inbound_headers=False,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)
_SETTINGS = {
    SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
    SettingCodes.MAX_HEADER_LIST_SIZE: _HEADER_BYTES,
    SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
    SettingCodes.MAX_FRAME_SIZE: _FRAME_BYTES,
}
# Until a client sends others, those of the protocol hold. The library assumes larger ones.
_CLIENT_SETTINGS = {
    SettingCodes.HEADER_TABLE_SIZE: 4096,
    SettingCodes.INITIAL_WINDOW_SIZE: 65_535,
}
_KNOWN_SETTINGS = frozenset(int(code) for code in SettingCodes)


class Http2(H2Connection):  # type: ignore[misc]  # has no types
    """The state of one connection of a client."""

    MAX_CLOSED_STREAMS = _CLOSED_STREAMS

    def __init__(self) -> None:
        super().__init__(_CONFIGURATION)
        self.local_settings = Settings(client=False, initial_values=_SETTINGS)
        self.remote_settings = Settings(client=True, initial_values=_CLIENT_SETTINGS)
        self.max_inbound_frame_size = _FRAME_BYTES
        self.decoder.max_header_list_size = _HEADER_BYTES

    def receive_data(self, data: bytes) -> list[Any]:
        """Return the events of some bytes. Raises ProtocolError."""
        events: list[Any] = super().receive_data(data)
        # The library checks the length of a frame only once it is there.
        waiting = len(self.incoming_buffer._data)  # noqa: SLF001
        if waiting > _FRAME_HEAD_BYTES + _FRAME_BYTES:
            raise FrameTooLargeError("a frame is too large")
        return events

    def _receive_settings_frame(self, frame: Any) -> Any:
        """Ignore settings that are unknown, as the protocol asks: the library keeps them all."""
        frame.settings = {
            code: value for code, value in frame.settings.items() if int(code) in _KNOWN_SETTINGS
        }
        return super()._receive_settings_frame(frame)

    def _receive_goaway_frame(self, frame: Any) -> Any:
        """Report that the client opens no more streams. The library would not answer its calls."""
        event = ConnectionTerminated()
        event.error_code = frame.error_code
        event.last_stream_id = frame.last_stream_id
        return [], [event]
