"""Structured logs: one JSON object per line in a rotating file, without the text of events."""

import logging
import logging.handlers
import sys
from collections.abc import Callable, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import structlog

TRACE = 5
LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


def configure(
    path: Path,
    *,
    level: str,
    max_bytes: int,
    files: int,
    also_stderr: bool,
    clean: Callable[[str], str],
) -> None:
    """Write the logs of this package and of libraries to the file, and to standard error in the
    foreground. `clean` removes secrets from every text: an error may quote its input."""
    logging.raiseExceptions = False  # a full disk must not print a traceback per line
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handlers: list[logging.Handler] = [
        logging.handlers.RotatingFileHandler(path, maxBytes=max_bytes, backupCount=files)
    ]
    if also_stderr:
        handlers.append(logging.StreamHandler(sys.stderr))
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            partial(_clean_event, clean),
            structlog.processors.JSONRenderer(),
        ],
        foreign_pre_chain=[structlog.stdlib.add_log_level, _timestamp],
    )
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(LEVELS[level])
    # These log a line per request, with its address; mcp also logs messages and session ids.
    for chatty in ("httpx", "httpcore", "mcp", "sse_starlette"):
        logging.getLogger(chatty).setLevel(max(LEVELS[level], logging.WARNING))
    for handler in handlers:
        handler.addFilter(_drop_traceback)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.add_log_level,
            _timestamp,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def watch_failures(on_failure: Callable[[str, str], None]) -> None:
    """Call `on_failure` with the name and the level of each warning and error from now on."""
    logging.getLogger().addHandler(_FailureHandler(on_failure))


class _FailureHandler(logging.Handler):
    def __init__(self, on_failure: Callable[[str, str], None]) -> None:
        super().__init__(logging.WARNING)
        self._on_failure = on_failure

    def emit(self, record: logging.LogRecord) -> None:
        # Our own events have constant names. A message of a library may quote its input, so only
        # the name of its logger counts.
        own = record.msg.get("event") if isinstance(record.msg, dict) else None
        level = "error" if record.levelno >= logging.ERROR else "warning"
        self._on_failure(str(own or record.name), level)


_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)


def _timestamp(logger: Any, name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return _stamp(logger, name, event)


def _clean_event(
    clean: Callable[[str], str], _logger: Any, _name: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    return {name: _clean_value(clean, value) for name, value in event.items()}


def _clean_value(clean: Callable[[str], str], value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_clean_value(clean, item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return clean(value if isinstance(value, str) else repr(value))


def _drop_traceback(record: logging.LogRecord) -> bool:
    """Drop the traceback of the MCP SDK, which quotes the message that it could not read."""
    if record.name.startswith("mcp."):
        record.exc_info = record.exc_text = None
    return True
