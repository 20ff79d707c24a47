"""The errors of Agent Memory. `interfaces/` has the one table of codes for each wire.

AgentMemoryError
├── InvalidInput        the request is not valid; the message says what to change
│   └── AmbiguousName   the name fits several records; the message lists them
├── NotFound            no such event, node, grip, memory or key
├── Unauthorized        no key, or an unknown one
├── Forbidden           the role or the projects of the caller do not allow it
├── ContentBlocked      the secrets filter refused the content
├── FeatureUnavailable  the feature is switched off or not installed
├── ConfigError         a setting is wrong; the message names file, line and the nearest known key
│   └── NotConfigured   a setting that this needs is not set
├── WorkerFailed        a background job crashed or hung
│   └── WorkerClosed    the worker is closed; the job was not started
├── IndexFailed         an index could not be read or written; it is rebuilt if necessary
├── EmbedderFailed      a text could not be embedded; a later attempt may succeed
│   └── EmbedderRefused the embedder rejects this text, now and later
├── RemoteUnavailable   a remote host does not answer
├── ListenFailed        the daemon could not listen on an address
├── Overloaded          too much unfinished work; try again
├── Cancelled           the caller pressed Ctrl-C or disconnected
├── LlmFailed           a model gave no usable answer
│   └── ContextTooLong  the prompt does not fit into the model's context
├── ToolFailed          a tool failed; the model sees the message
└── StorageFailed       the store could not read or write
    ├── GitFailed       a repository could not be read or written
    ├── StorageClosed   the store is closed, or closing
    ├── StorageDamaged  files of the store are damaged; `admin verify --repair` saves the rest
    ├── StorageUnwritable  the store cannot be written now; it retries by itself
    ├── StorageLocked   another process has the store open
    └── StorageTooNew   written by a newer version of the product
"""


class AgentMemoryError(Exception):
    """Something went wrong in Agent Memory."""


class InvalidInput(AgentMemoryError):
    """The request is not valid."""


class AmbiguousName(InvalidInput):
    """The name fits several records."""


class NotFound(AgentMemoryError):
    """No such event, node, grip, memory or key."""


class Unauthorized(AgentMemoryError):
    """The request needs a bearer key."""


class Forbidden(AgentMemoryError):
    """Your role or your projects do not allow this."""


class ContentBlocked(AgentMemoryError):
    """The content contains a secret and was not stored."""


class FeatureUnavailable(AgentMemoryError):
    """The feature is switched off or not installed."""


class ConfigError(AgentMemoryError):
    """A setting is wrong."""


class NotConfigured(ConfigError):
    """A setting that this needs is not set."""


class WorkerFailed(AgentMemoryError):
    """A background job crashed or hung."""


class WorkerClosed(WorkerFailed):
    """The worker is closed."""


class IndexFailed(AgentMemoryError):
    """An index could not be read or written."""


class EmbedderFailed(AgentMemoryError):
    """A text could not be embedded."""


class EmbedderRefused(EmbedderFailed):
    """The embedder rejects this text."""


class RemoteUnavailable(AgentMemoryError):
    """A remote host does not answer."""


class ListenFailed(AgentMemoryError):
    """The daemon could not listen on an address."""


class Overloaded(AgentMemoryError):
    """Too much unfinished work; try again in a moment."""


class Cancelled(AgentMemoryError):
    """The caller pressed Ctrl-C or disconnected."""


class StorageFailed(AgentMemoryError):
    """The store could not be read or written."""


class GitFailed(StorageFailed):
    """A git repository could not be read or written."""


class LlmFailed(AgentMemoryError):
    """The model gave no usable answer."""


class ContextTooLong(LlmFailed):
    """The prompt does not fit into the model's context."""


class ToolFailed(AgentMemoryError):
    """The tool failed."""


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
