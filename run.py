"""Run methods on models: `python run.py method=evict benchmark=gsm8k`, `--help` for the rest."""

from __future__ import annotations

import sys

from harness.command import guarded, register, run_command

register()

if __name__ == "__main__":
    sys.exit(guarded(run_command))
