"""Where and with what a run was made: software, source, processor, GPUs. Nothing is installed."""

from __future__ import annotations

import os
from typing import Any

from harness.config import ROOT
from harness.hardware import cpu
from harness.hardware.git import git_facts
from harness.hardware.gpu import open_gpus
from harness.hardware.memory import memory_facts
from harness.hardware.processes import own_pids
from harness.hardware.software import package_versions, system, thread_settings

OWN_FILE = "harness/provenance.py"
NO_CPUFREQ = "the kernel shows no cpufreq, as in most virtual machines"
REASONS = {
    "cpu": "the system does not name its processor",
    "governor": NO_CPUFREQ,
    "clock_mhz": "the kernel tells no clock",
    "clock_max_mhz": NO_CPUFREQ,
    "load_average": "this system keeps none",
}


def collect_provenance(nvml: Any = None) -> dict[str, Any]:
    """A plain dict; a fact that cannot be read is None, with the reason under `absent`.

    `gpus` holds what stays while a run goes on, `gpu_state` what changes from moment to moment. A
    package that is not installed is None; so is an unset environment variable under `threads`.
    nvml: as for `open_gpus`.
    """
    machine = {**_processor(), **_gpus(nvml)}
    return {
        **system(),
        "packages": package_versions(),
        "threads": thread_settings(),
        **machine,
        "memory": memory_facts(),
        "git": git_facts(ROOT, OWN_FILE),
        "absent": {name: why for name, why in REASONS.items() if machine[name] is None},
    }


def _processor() -> dict[str, Any]:
    return {
        "cpu": cpu.cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": cpu.usable_cores(),
        "governor": cpu.governor(),
        "clock_mhz": cpu.clock_mhz(),
        "clock_max_mhz": cpu.clock_max_mhz(),
        "load_average": cpu.load_average(),
    }


def _gpus(nvml: Any) -> dict[str, Any]:
    session, mine = open_gpus(nvml), own_pids()
    try:
        return {
            "gpus": [gpu.facts() for gpu in session.gpus],
            "gpus_reason": session.reason,
            "gpu_state": [gpu.state(mine) for gpu in session.gpus],
        }
    finally:
        session.close()
