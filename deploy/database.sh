#!/bin/sh
# Runs once in the PostgreSQL container of docker-compose.yml: the two roles and their rights (docs/operations.md).
set -eu
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set owner_password="$OWNER_PASSWORD" --set app_password="$APP_PASSWORD" <<'SQL'
CREATE ROLE gpunex_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE gpunex_app LOGIN PASSWORD :'app_password';
ALTER DATABASE gpunex OWNER TO gpunex_owner;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT ALL ON SCHEMA public TO gpunex_owner;
GRANT USAGE ON SCHEMA public TO gpunex_app;
ALTER DEFAULT PRIVILEGES FOR ROLE gpunex_owner IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO gpunex_app;
ALTER DEFAULT PRIVILEGES FOR ROLE gpunex_owner IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO gpunex_app;
SQL
