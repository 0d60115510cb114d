#!/usr/bin/env bash
# Lab 2 needs NVIDIA's megatron-core next to the course's torch. This script installs it at the version pinned in
# constraints.txt. It prints what it finds and does, and checks that Megatron can be imported. If nothing is missing it
# installs nothing: rerun it freely.
#   labs/lab02-megatron/setup_environment.sh                  into .venv
#   PYTHON=python3 labs/lab02-megatron/setup_environment.sh   into the environment of another Python
set -euo pipefail
if [ "${1:-}" = "--help" ] || [ "${1:-}" = "-h" ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0"
  exit 0
fi

cd "$(dirname "$0")/../.."
python=${PYTHON:-.venv/bin/python}
command -v "$python" >/dev/null || { echo "$python does not exist: run \`make setup\` first, or set PYTHON."; exit 1; }
wanted=$(grep '^megatron-core==' constraints.txt)

"$python" -c '
import platform, sys
print(f"found: Python {platform.python_version()} in {sys.prefix}")
try:
    import torch
except ImportError:
    sys.exit("torch is missing there: run `make setup` first, or set PYTHON.")
where = f"{torch.cuda.device_count()} GPU" if torch.cuda.is_available() else "no GPU: the ranks are CPU processes with gloo"
print(f"found: torch {torch.__version__}; {where}")
'

# Without dependencies: they are torch, numpy and packaging, which the course pins; another torch would break it.
installed=$("$python" -m pip freeze --disable-pip-version-check | grep '^megatron-core==' || true)
if [ "$installed" = "$wanted" ]; then
  echo "found: $installed, as pinned; nothing to install"
else
  echo "found: ${installed:-no megatron-core}; installing $wanted"
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps "$wanted"
fi

CUDA_DEVICE_MAX_CONNECTIONS=1 "$python" -W ignore -c '
import megatron.core, torch
import megatron.core.models.gpt, megatron.core.pipeline_parallel, megatron.core.tensor_parallel
print(f"ready: megatron-core {megatron.core.__version__} on torch {torch.__version__}")
'
