#!/bin/sh
# CoreCoder, a coding agent with a shell and files: corecoder.sh BIN. The prompt comes on stdin. It is told where to ask by
# OPENAI_BASE_URL, OPENAI_API_KEY and CORECODER_MODEL, and looks for nothing above its own folder.
set -eu
export HOME="$PWD"
exec "$1/corecoder" --yes --prompt "$(cat)"
