#!/bin/sh
# Starts a Redis or a Sentinel, for containers that keep /data:
#
#   redis.sh server OWN-ADDRESS [MASTER]    the first master has none
#   redis.sh sentinel OWN-ADDRESS MASTER
#
# Their settings are written once. Afterwards the Sentinels keep them, who know which Redis is the master.
set -eu
umask 077
role=$1 own=$2 master=${3:-}
data=${DATA:-/data}
password=$(cat "${SECRETS:-/run/secrets}/redis-password")
conf=$data/$role.conf
if [ ! -e "$conf" ]; then
  case $role in
  server)
    {
      echo "port ${PORT:-6379}"
      echo "dir $data"
      echo "requirepass $password"
      echo "masterauth $password"
      echo "replica-announce-ip $own"
      echo "appendonly yes"
      echo "maxmemory ${MAXMEMORY:-512mb}"
      echo "maxmemory-policy noeviction"
      [ -z "$master" ] || echo "replicaof $master ${MASTER_PORT:-6379}"
    } >"$conf.new"
    ;;
  sentinel)
    {
      echo "port ${PORT:-26379}"
      echo "dir $data"
      echo "protected-mode no" # it has no password; the network of the containers is its own
      echo "sentinel announce-ip $own"
      echo "sentinel monitor mymaster $master ${MASTER_PORT:-6379} 2"
      echo "sentinel auth-pass mymaster $password"
      echo "sentinel down-after-milliseconds mymaster 5000"
      echo "sentinel failover-timeout mymaster 30000"
    } >"$conf.new"
    ;;
  *)
    echo "usage: redis.sh server|sentinel OWN-ADDRESS [MASTER]" >&2
    exit 2
    ;;
  esac
  mv "$conf.new" "$conf"
fi
[ "$role" = server ] || set -- "$conf" --sentinel
[ "$role" = sentinel ] || set -- "$conf"
exec redis-server "$@"
