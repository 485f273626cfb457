#!/bin/sh
# Run once by the image, as the owner. Creates the application's role, which owns no tables.
set -eu
psql --set ON_ERROR_STOP=1 --set password="$APP_PASSWORD" --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<-'SQL'
	CREATE ROLE headroom_app LOGIN PASSWORD :'password';
SQL
