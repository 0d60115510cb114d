#!/bin/sh
# The scheduler of the grading cluster. On its first start it creates the key shared by desk, scheduler and workers.
set -eu
keys=${KEYS:-/srv/keys}
if [ ! -s "$keys/cluster.pem" ]; then
  umask 077
  openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=sys602 \
    -keyout "$keys/cluster.key" -out "$keys/new.pem" 2>/dev/null
  mv "$keys/new.pem" "$keys/cluster.pem"
fi
# Even with --no-dashboard, Dask serves public pages that list the running jobs: remove the routes and use loopback only.
export DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES='[]'
exec dask scheduler --protocol tls --port "${PORT:-8786}" --no-dashboard --dashboard-address "127.0.0.1:${HTTP_PORT:-8787}"
