"""Every failure of the product. `interfaces/wire/errors.py` has the codes of each on every wire.

AgentMemoryError
├── InvalidInput        the caller sent something we refuse; the message says what to change
├── NotFound            no such event, node, grip, memory or key
├── Unauthorized        no key, or one that is not known
├── ContentBlocked      the secrets filter refused the content
├── FeatureUnavailable  what was asked for is switched off or not there
├── ConfigError         a setting is wrong; the message names file, line and the nearest known key
├── WorkerFailed        a background job crashed or hung
│   └── WorkerClosed    there is no worker any more; the job was not begun
├── IndexFailed         an index could not be read or written; it is built anew if need be
├── EmbedderFailed      a text could not be embedded; later it may
│   └── EmbedderRefused this text cannot, now or later
├── RemoteUnavailable   nobody answers at the other end of a network
├── ListenFailed        an address could not be listened on
├── Overloaded          too much unfinished work; try again
├── Cancelled           the caller pressed Ctrl-C or went away
├── LlmFailed           a model was asked and gave no answer that can be used
│   └── ContextTooLong  what it was given does not fit into its context
├── ToolFailed          a tool did not do what it was asked; the model is told why
└── StorageFailed       the store could not read or write
    ├── GitFailed       a repository could not be read or written
    ├── StorageClosed   the store is closed, or closing
    ├── StorageDamaged  files of the store are damaged; `admin verify --repair` saves the rest
    ├── StorageUnwritable  the store cannot be written now; it tries to mend that by itself
    ├── StorageLocked   another process has the store open
    └── StorageTooNew   written by a newer version of the product
"""


class AgentMemoryError(Exception):
    """Something went wrong in Agent Memory."""


class InvalidInput(AgentMemoryError):
    """The request is not valid."""


class NotFound(AgentMemoryError):
    """No such event, node, grip, memory or key."""


class Unauthorized(AgentMemoryError):
    """A bearer key is needed."""


class ContentBlocked(AgentMemoryError):
    """The content holds a secret and was not stored."""


class FeatureUnavailable(AgentMemoryError):
    """What was asked for is switched off or not there."""


class ConfigError(AgentMemoryError):
    """A setting is wrong."""


class WorkerFailed(AgentMemoryError):
    """A background job crashed or hung."""


class WorkerClosed(WorkerFailed):
    """There is no worker any more."""


class IndexFailed(AgentMemoryError):
    """An index could not be read or written."""


class EmbedderFailed(AgentMemoryError):
    """A text could not be embedded."""


class EmbedderRefused(EmbedderFailed):
    """The embedder does not take this text."""


class RemoteUnavailable(AgentMemoryError):
    """Nobody answers at the other end of a network."""


class ListenFailed(AgentMemoryError):
    """An address could not be listened on."""


class Overloaded(AgentMemoryError):
    """Too much unfinished work; try again in a moment."""


class Cancelled(AgentMemoryError):
    """The caller pressed Ctrl-C or went away."""


class StorageFailed(AgentMemoryError):
    """The store could not be read or written."""


class GitFailed(StorageFailed):
    """A git repository could not be read or written."""


class LlmFailed(AgentMemoryError):
    """The model gave no answer that can be used."""


class ContextTooLong(LlmFailed):
    """It does not fit into the model's context."""


class ToolFailed(AgentMemoryError):
    """The tool did not do what it was asked."""


class StorageClosed(StorageFailed):
    """The store is closed."""


class StorageDamaged(StorageFailed):
    """Files of the store are damaged."""


class StorageUnwritable(StorageFailed):
    """The store cannot be written now; try again later."""


class StorageLocked(StorageFailed):
    """Another process has the store open."""


class StorageTooNew(StorageFailed):
    """The store was written by a newer version of Agent Memory; upgrade to open it."""
