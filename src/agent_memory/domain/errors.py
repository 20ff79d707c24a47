"""Every failure the product knows. What each becomes on a wire stands in `interfaces/wire.py`.

AgentMemoryError
├── InvalidInput        the caller sent something we refuse; the message says what to change
├── NotFound            no such event, node, grip or memory
├── ContentBlocked      the secrets filter refused the content
├── ListenFailed        an address could not be listened on
├── Overloaded          too much unfinished work; try again
└── StorageFailed       the store could not read or write
    ├── StorageClosed   the store is closed, or closing
    ├── StorageLocked   another process has the store open
    └── StorageTooNew   written by a newer version of the product
"""


class AgentMemoryError(Exception):
    """Something went wrong in Agent Memory."""


class InvalidInput(AgentMemoryError):
    """The request is not valid."""


class NotFound(AgentMemoryError):
    """No such event, node, grip or memory."""


class ContentBlocked(AgentMemoryError):
    """The content holds a secret and was not stored."""


class Overloaded(AgentMemoryError):
    """Too much unfinished work; try again in a moment."""


class ListenFailed(AgentMemoryError):
    """An address could not be listened on."""


class StorageFailed(AgentMemoryError):
    """The store could not be read or written."""


class StorageClosed(StorageFailed):
    """The store is closed."""


class StorageLocked(StorageFailed):
    """Another process has the store open."""


class StorageTooNew(StorageFailed):
    """The store was written by a newer version of Agent Memory; upgrade to open it."""
