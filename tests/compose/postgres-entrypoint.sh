#!/bin/sh
# As the official entrypoint: initdb with POSTGRES_PASSWORD into PGDATA, then the given command.
set -eu
mkdir -p "$PGDATA" && chown 10001:10001 "$PGDATA"
run="setpriv --reuid 10001 --regid 10001 --clear-groups"
printf '%s' "$POSTGRES_PASSWORD" > /tmp/password && chown 10001 /tmp/password
# shellcheck disable=SC2086
$run /usr/local/pgbin/initdb -D "$PGDATA" -U postgres -A scram-sha-256 --pwfile /tmp/password $POSTGRES_INITDB_ARGS > /dev/null
rm /tmp/password
echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
shift
exec $run /usr/local/pgbin/postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp "$@"
