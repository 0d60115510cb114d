#!/usr/bin/env bash
# Lab 2 needs NVIDIA's megatron-core beside the course's torch. `make setup` installs it on Linux; this script does it
# elsewhere, or after a torch of your own, at the pin of constraints.txt, and then says whether it can be imported.
#   labs/lab02-megatron/setup_environment.sh            into .venv
#   PYTHON=python3 labs/lab02-megatron/setup_environment.sh   into the environment of another Python
set -euo pipefail
if [ "${1:-}" = "--help" ] || [ "${1:-}" = "-h" ]; then
  sed -n '2,5s/^# \{0,1\}//p' "$0"
  exit 0
fi

cd "$(dirname "$0")/../.."
python=${PYTHON:-.venv/bin/python}
command -v "$python" >/dev/null || { echo "There is no $python: run \`make setup\` first, or set PYTHON."; exit 1; }
wanted=$(grep '^megatron-core==' constraints.txt)

# Without its dependencies: they are torch, numpy and packaging, which the course pins, and another torch would be wrong.
if ! "$python" -m pip freeze --disable-pip-version-check | grep -qx "$wanted"; then
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps "$wanted"
fi

CUDA_DEVICE_MAX_CONNECTIONS=1 "$python" -W ignore -c '
import megatron.core, torch
import megatron.core.tensor_parallel, megatron.core.pipeline_parallel
where = f"{torch.cuda.device_count()} GPU" if torch.cuda.is_available() else "no GPU: the ranks are CPU processes with gloo"
print(f"megatron-core {megatron.core.__version__} on torch {torch.__version__}; {where}")
'
