#!/bin/sh
# Runs once, in a new database: a role that owns the memory and is no superuser, so that row-level
# security counts for it. It gets the second password of team.env.
set -eu
psql --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\getenv secret PGPASSWORD
SELECT format('CREATE ROLE memory LOGIN PASSWORD %L', :'secret') \gexec
CREATE DATABASE memory OWNER memory;
SQL
