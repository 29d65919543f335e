"""What a dead server's log says, told with a remedy. The texts are those of SGLang 0.5.23."""

from __future__ import annotations

import pytest

from evict.errors import InputError
from evict.sglang import version
from harness.engines.sglang.failures import diagnose

HEALTHY = """server_args={'speculative_algorithm': 'EAGLE3', 'cuda_graph_bs': [1]}
Load weight begin. avail mem=79.10 GB
Load weight end. type=Qwen3MoeForCausalLM, avail mem=21.02 GB, mem usage=57.10 GB.
Memory pool end. avail mem=9.10 GB
Capture decode CUDA graph begin. This can take up to several minutes.
"""
SCHEDULER = "Scheduler hit an exception: Traceback (most recent call last):\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB."


def frames(*names: str) -> str:
    pairs = (name.split(":") for name in names)
    return "".join(f'  File "srt/{file}", line 1, in {function}\n' for file, function in pairs)


def version_error() -> str:
    with pytest.raises(InputError) as caught:
        version.check("0.5.22")
    return f"evict.errors.InputError: {caught.value}"


LOGS = {
    "oom_graph_capture": (
        frames("speculative/eagle_draft_cuda_graph_runner.py:__init__")
        + f"{OOM}\nException: Capture cuda graph failed: CUDA out of memory.",
        "mem_fraction_static",
    ),
    "oom_weights": (
        frames("model_executor/model_runner.py:load_model", "layers/moe/moe.py:create_weights")
        + OOM,
        "tensor-parallel",
    ),
    "oom_kv_pool": (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "raise mem_fraction_static",
    ),
    "unknown_algorithm": (
        "ValueError: Unknown speculative algorithm name: EVICT",
        "pip install -e .",
    ),
    "wrong_version": (version_error(), "evict-bench[sglang]"),
    "draft_mismatch": (
        frames("models/llama_eagle3.py:load_weights")
        + "AssertionError: Attempted to load weight (torch.Size([64, 192])) into parameter "
        "(torch.Size([48, 192]))",
        "hidden size",
    ),
    "import_error": ("ModuleNotFoundError: No module named 'sgl_kernel'", "pip install"),
    "other": ("RuntimeError: the weather", "last lines"),
}


@pytest.mark.parametrize("kind", LOGS)
def test_a_log_is_told_by_what_failed_and_not_by_what_went_well(kind: str) -> None:
    failed, hint = LOGS[kind]
    error = diagnose(HEALTHY + SCHEDULER + failed, "the server ended")
    assert error.kind == kind
    assert hint in error.hint
    assert failed.splitlines()[-1][:40] in error.what or "OutOfMemoryError" in error.what
    assert "the server ended" in error.what


def test_a_pool_that_does_not_fit_asks_for_less_and_one_without_room_for_more() -> None:
    trace = SCHEDULER + frames("mem_cache/memory_pool.py:_create_buffers") + OOM
    no_room = SCHEDULER + "ValueError: Loaded weights leave no GPU memory for the KV cache"
    assert diagnose(trace, "x").hint.startswith("lower")
    assert diagnose(no_room, "x").hint.startswith("raise")
    assert {diagnose(log, "x").kind for log in (trace, no_room)} == {"oom_kv_pool"}


def test_memory_that_ends_while_serving_is_no_failed_capture() -> None:
    trace = SCHEDULER + frames("managers/scheduler.py:run_batch") + OOM
    error = diagnose(HEALTHY + trace, "the server ended")
    assert error.kind == "other"
    assert "lower mem_fraction_static" in error.hint


def test_a_taken_port_is_seen_before_the_warm_up_fails_on_it() -> None:
    log = (
        "ERROR:    [Errno 98] error while attempting to bind on address: address already in use\n"
        "Traceback (most recent call last):\nrequests.exceptions.HTTPError: 501 Server Error"
    )
    assert diagnose(HEALTHY + log, "the server ended").kind == "port_in_use"


def test_the_last_30_lines_are_kept_and_shown() -> None:
    error = diagnose("\n".join(f"line {i}" for i in range(100)), "the server ended", "wait longer")
    assert error.log_lines == tuple(f"line {i}" for i in range(70, 100))
    assert error.hint == "wait longer"
    assert "line 70" in str(error)
    assert "line 69" not in str(error)


def test_the_dump_of_all_arguments_is_no_trace() -> None:
    log = "server_args={'disable_cuda_graph': False, 'graph_capture': 1}\nterminate: out of memory"
    assert diagnose(log, "the server ended").kind == "other"
