#!/bin/sh
# For cron, once an hour:  17 * * * *  /path/to/cron.sh
# Keys and their origins come from a file that only this user can read (chmod 600), never from the target file.
set -eu
cd "$(dirname "$0")"
. "${RELAY_AUDIT_ENVIRONMENT:-$HOME/.relay-audit.env}"
hour=$(printf '%s' "$(date -u +%F) $(hostname)" | cksum | awk '{ print $1 % 24 }')
[ "$(date -u +%-H)" -eq "$hour" ] || exit 0
export RELAY_KEY RELAY_KEY_ORIGIN
exec relay-audit run relay-audit.toml --free-only --no-input --json --baseline accepted.toml --watch watch.json --allow-inconclusive
