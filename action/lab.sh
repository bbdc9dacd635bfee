#!/usr/bin/env bash
# Our own lab in the vendor's place, for the job that tests the action: writes lab-target.toml, exports the keys.
set -euo pipefail
python3 -m venv "${RUNNER_TEMP:?}/lab"
"$RUNNER_TEMP/lab/bin/python" -m pip install --quiet --disable-pip-version-check .
nohup "$RUNNER_TEMP/lab/bin/relay-audit" lab honest --json --seconds 900 >"$RUNNER_TEMP/lab.json" 2>/dev/null &
for _ in $(seq 50); do [ -s "$RUNNER_TEMP/lab.json" ] && break; sleep 0.2; done
python3 - "$RUNNER_TEMP/lab.json" <<'PY'
import json, os, sys
served = json.loads(open(sys.argv[1]).readline())["served"][0]
open("lab-target.toml", "w").write(f'''[target]
model = "claude-sonnet-5-5"
claim = {{ channel = "anthropic" }}
[relay]
base_url = "{served["relay"]}"
key_env = "RELAY_KEY"
''')
with open(os.environ["GITHUB_ENV"], "a") as file:
    file.write(f"RELAY_KEY={served['relay_key']}\n")
PY
