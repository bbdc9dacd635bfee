#!/usr/bin/env bash
# One night of the action. Everything comes in through the environment and is quoted: an input is data, never a command.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

refuse() { printf '::error title=relay-audit::%s\n' "$1"; exit 2; }

# Such a run would hold the repository's secrets while it reads a stranger's files.
[ "${GITHUB_EVENT_NAME:-}" != pull_request_target ] || refuse "pull_request_target is refused: use schedule or workflow_dispatch"
[ -n "${INPUT_TARGET:-}" ] || refuse "input target is missing"

read -r -a variables <<<"${INPUT_KEY_VARIABLES:-RELAY_KEY OFFICIAL_KEY}"
for name in "${variables[@]}"; do
  [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || refuse "key-variables holds a name that is no variable's"
  value=${!name:-}
  [ -z "$value" ] || [[ $value == *$'\n'* ]] || printf '::add-mask::%s\n' "$value"
done

place=${RUNNER_TEMP:-$(mktemp -d)}/relay-audit
mkdir -p "$place/reports"
if [ ! -x "$place/venv/bin/relay-audit" ]; then
  "${INPUT_PYTHON:-python3}" -m venv "$place/venv"
  "$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check -- "$INPUT_PACKAGE"
fi
tool=$place/venv/bin/relay-audit

command=(run --json --no-input "--fail-on=${INPUT_FAIL_ON:-medium}" "--lang=${INPUT_LANG:-en}")
if [ "${INPUT_FREE_ONLY:-true}" != false ]; then
  command+=(--free-only)
elif [ -n "${INPUT_EXPECT_PLAN:-}" ]; then
  command+=("--expect-plan=$INPUT_EXPECT_PLAN")
else
  refuse "free-only is false: name the reviewed plan in expect-plan"
fi
[ -z "${INPUT_BASELINE:-}" ] || command+=("--baseline=$INPUT_BASELINE")
[ -z "${INPUT_WATCH:-}" ] || command+=("--watch=$INPUT_WATCH")
[ "${INPUT_ALLOW_INCONCLUSIVE:-false}" != true ] || command+=(--allow-inconclusive)

code=0
"$tool" "${command[@]}" -- "$INPUT_TARGET" >"$place/result.ndjson" || code=$?

"$place/venv/bin/python" "$here/publish.py" "$place/result.ndjson" "$place/reports" "$tool" "$code"
[ "${INPUT_ISSUE:-false}" != true ] || "$place/venv/bin/python" "$here/issue.py" "$place/result.ndjson"
exit "$code"
