#!/bin/sh
# llm, with tools: llm.sh BIN [MODEL]. The prompt comes on stdin. It knows its models from a folder of its own, and
# where to ask from OPENAI_BASE_URL. No plug-ins: one of those in the environment of the tests needs more than is there.
set -eu
here=$(dirname "$0")
export LLM_USER_PATH="$PWD/.llm" LLM_LOAD_PLUGINS=
mkdir -p "$LLM_USER_PATH"
cp "$here/llm/extra-openai-models.yaml" "$LLM_USER_PATH/"
exec "$1/llm" --no-log --model "${2:-test-model}" --functions "$here/llm/tools.py"
