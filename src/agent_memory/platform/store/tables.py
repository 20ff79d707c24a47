"""The tables in PostgreSQL, their version, and the steps from one version to the next.

A database of another version is brought to ours when a daemon starts, while other daemons go on
reading and writing. Rules for a step, which is a list of statements, each in a transaction of its
own:

- Readers and writers of the previous version must work before, during and after it. Add columns
  that may be NULL or have a constant default: PostgreSQL then rewrites no row. Remove what is no
  longer used only when no version that uses it is supported.
- A statement may be repeated, because a daemon may be killed after it: write IF NOT EXISTS.
- Create an index with CREATE INDEX CONCURRENTLY, and before it DROP INDEX CONCURRENTLY IF EXISTS:
  one that was cut off is left invalid, and IF NOT EXISTS would keep it.
- A statement that changes a table waits for a lock on it, and others queue behind. It therefore
  waits only a moment, and is tried again.

A newer version is refused. New databases start with version 1 and take the same steps.
"""

from typing import NamedTuple


class TableSteps(NamedTuple):
    """The statements that lead to version 2, those that lead to version 3, and so on."""

    steps: tuple[tuple[str, ...], ...] = ()

    @property
    def version(self) -> int:
        return 1 + len(self.steps)

    def get_step(self, number: int) -> tuple[str, ...]:
        """Return the statements that lead to a version from the one before."""
        return self.steps[number - 2]


OURS = TableSteps()

CREATE = (
    "CREATE SCHEMA IF NOT EXISTS agent_memory",
    """CREATE TABLE IF NOT EXISTS agent_memory.kv (
        tenant text COLLATE "C" NOT NULL,
        family text COLLATE "C" NOT NULL,
        key bytea NOT NULL,
        value bytea NOT NULL,
        whole_key bytea,
        PRIMARY KEY (tenant, family, key)
    )""",
    # Room for new versions of a row beside the old one, which then need no index entry.
    """CREATE TABLE IF NOT EXISTS agent_memory.head (
        tenant text COLLATE "C" PRIMARY KEY,
        outbox bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 20)""",
    # One row. A daemon that takes a step locks it.
    """CREATE TABLE IF NOT EXISTS agent_memory.version (
        one_row boolean PRIMARY KEY DEFAULT true CHECK (one_row),
        number integer NOT NULL
    )""",
    "INSERT INTO agent_memory.version (number) VALUES (1) ON CONFLICT DO NOTHING",
)
# Also for the owner of the tables: FORCE.
PROTECT = tuple(
    statement.format(table=table)
    for table in ("agent_memory.kv", "agent_memory.head")
    for statement in (
        """CREATE POLICY own_tenant ON {table}
        USING (tenant = current_setting('agent_memory.tenant', true))
        WITH CHECK (tenant = current_setting('agent_memory.tenant', true))""",
        "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
    )
)
IS_PROTECTED = """
    SELECT count(*) = 2 FROM pg_class AS relation
    JOIN pg_policy ON polrelid = relation.oid AND polname = 'own_tenant'
    WHERE relation.oid IN (to_regclass('agent_memory.kv'), to_regclass('agent_memory.head'))
    AND relrowsecurity AND relforcerowsecurity
"""
BYPASSES = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
READ_VERSION = "SELECT number FROM agent_memory.version"
LOCK_VERSION = f"{READ_VERSION} FOR UPDATE NOWAIT"
SET_VERSION = "UPDATE agent_memory.version SET number = %s"
