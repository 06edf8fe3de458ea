#!/usr/bin/env bash
# 60 questions, 8 in flight; kill -9 after 20 answers; resume; prove it. From the checkout, after scripts/run.
# The endpoint is the tests' own: it answers after 150 ms, on loopback, and counts what it served.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${EVRUN_VENV:-.venv}/bin
data=${EVRUN_DATA:-data}
scratch=$(mktemp -d)
trap 'kill "$endpoint" 2>/dev/null || true; rm -rf "$scratch"' EXIT

for i in 1 2 3; do  # 3 times 20 questions; numbers in front make them 60 different ones
    sed "s/\"prompt\": \"/&($i) /" examples/gsm8k_20.jsonl
done > "$scratch/questions.jsonl"
"$bin/python" -m tests.endpoint --stay --latency-ms 150 --account-file "$scratch/served" > "$scratch/endpoint" &
endpoint=$!
while ! grep -qs base_url "$scratch/endpoint"; do sleep 0.1; done
OPENAI_BASE_URL=$("$bin/python" -c 'import json, sys; print(json.loads(sys.stdin.readline())["base_url"])' < "$scratch/endpoint")
export OPENAI_BASE_URL
served() { if [ -f "$scratch/served" ]; then wc -l < "$scratch/served"; else echo 0; fi; }

show() { echo "\$ $*" | sed "s|$bin/||; s|$scratch/||; s| --output-dir $data||"; }
options=(--run-name overnight --concurrency 8 --max-tokens 400 --price test-model=0.15,0.60)
show evrun run questions.jsonl "${options[@]}"
"$bin/evrun" run "$scratch/questions.jsonl" "${options[@]}" --output-dir "$data" 2> /dev/null &
runner=$!
while [ "$(served)" -lt 20 ]; do sleep 0.01; done
kill -9 $runner
wait $runner 2> /dev/null || true
echo "Killed"
sleep 0.3
show evrun run --run-name overnight --resume
"$bin/evrun" run --run-name overnight --output-dir "$data" --resume 2> /dev/null
echo "\$ wc -l < data/overnight/trajectories.jsonl"
wc -l < "$data/overnight/trajectories.jsonl"
echo "\$ wc -l < served   # what the endpoint counted, calls in flight at the kill included"
served
show evrun audit overnight '|' head -n 4
"$bin/evrun" audit overnight --output-dir "$data" > "$scratch/audit"
head -n 4 "$scratch/audit"
show evrun verify overnight
"$bin/evrun" verify overnight --output-dir "$data"
show rm data/overnight/*.json* '&&' evrun replay overnight '&&' evrun replay overnight --check | sed 's|'"$data"'/overnight/[^&]*|data/overnight/*.json* |'
cat "$data"/overnight/*.json* | cksum > "$scratch/before"
rm "$data"/overnight/*.json*
"$bin/evrun" replay overnight --output-dir "$data" > /dev/null
"$bin/evrun" replay overnight --output-dir "$data" --check | tail -n 1
cat "$data"/overnight/*.json* | cksum | cmp - "$scratch/before"
