#!/usr/bin/env bash
# What only a GPU can answer about EVICT in SGLang, within 12 minutes, as one JSON:
#   scripts/gpu_check.sh --out results/reference/gpu_check.json [--logs FOLDER] [--budget SECONDS]
# On a CPU, with small sizes and the kernels of tests/sglang/standins on PYTHONPATH: --dry-run
set -euo pipefail
cd "$(dirname "$0")/.."

has_sglang() {
    command -v "$1" >/dev/null &&
        "$1" -c 'import sys, importlib.util as u; sys.exit(u.find_spec("sglang") is None)'
}

if [ -z "${PYTHON:-}" ]; then
    for candidate in .venv-sglang/bin/python .venv/bin/python python3 python; do
        if has_sglang "$candidate"; then
            PYTHON=$candidate
            break
        fi
    done
fi
if [ -z "${PYTHON:-}" ]; then
    echo "no python with sglang found; name one: PYTHON=/path/to/python $0 $*" >&2
    exit 2
fi
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" MKL_NUM_THREADS="${MKL_NUM_THREADS:-1}"
exec "$PYTHON" -m harness.engines.sglang.gpu_check "$@"
