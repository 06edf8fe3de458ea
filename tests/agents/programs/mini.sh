#!/bin/sh
# mini-swe-agent, which works through a shell: mini.sh BIN. The prompt comes on stdin. It normally asks through litellm, which
# weighs more than everything else here together; mini_model.py is its own lighter model class, pointed at OPENAI_BASE_URL.
# With litellm installed, `mini -y --exit-immediately -l 0 -t "$(cat)"` does the same by the variables alone.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here" MSWEA_GLOBAL_CONFIG_DIR="$PWD/.mini" MSWEA_SILENT_STARTUP=1
exec "$1/mini" --yolo --exit-immediately --cost-limit 0 --output .mini/trajectory.json \
    --model-class mini_model.BaseUrlModel --model "$OPENAI_MODEL" --task "$(cat)"
