"""The algorithm that `--speculative-algorithm EVICT` names, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang.srt.speculative.spec_info import CustomSpecAlgo, SpeculativeAlgorithm

from evict.errors import InputError
from evict.growth import level_capacity
from evict.sglang.config import EvictConfig

# What SGLang's own EAGLE algorithms take when nothing is said.
MAX_RUNNING_REQUESTS = 48
NEEDED = ("draft_model_path", "num_steps", "eagle_topk", "num_draft_tokens")
EXAMPLE = (
    "--speculative-draft-model-path .. --speculative-num-steps 4 --speculative-eagle-topk 8 "
    "--speculative-num-draft-tokens 32"
)


class EvictAlgorithm(CustomSpecAlgo):  # type: ignore[misc]
    """An EAGLE-3 algorithm to SGLang's scheduler, with a worker of its own.

    The scheduler calls `create_future_map`, `carries_draft_hidden_states`, `need_topk` and
    `get_platform_worker_cls` on any algorithm; the base class of plugins lacks them in 0.5.23.
    """

    create_future_map = SpeculativeAlgorithm.create_future_map

    def is_eagle(self) -> bool:
        """Drafts with hidden states of the target, as EAGLE does."""
        return True

    def is_eagle3(self) -> bool:
        """Takes three auxiliary hidden states of the target."""
        return True

    def need_topk(self) -> bool:
        """The first level's candidates are relayed from step to step."""
        return True

    def supports_mixed_chunk(self) -> bool:
        """As EAGLE: running requests of a mixed step decode plainly."""
        return True

    def supports_grammar_overlap(self) -> bool:
        """As EAGLE: verify advances the grammar."""
        return True

    def has_draft_kv(self) -> bool:
        """The draft head keeps a cache."""
        return True

    def carries_draft_hidden_states(self) -> bool:
        """As EAGLE."""
        return True

    def get_platform_worker_cls(self) -> None:
        """No replacement of the worker by a platform."""
        return None

    def handle_server_args(self, server_args: Any) -> None:
        """Defaults that SGLang gives EAGLE by name."""
        if server_args.max_running_requests is None:
            server_args.max_running_requests = MAX_RUNNING_REQUESTS
        if server_args.device == "cpu":
            server_args.disable_overlap_schedule = True


def validate(server_args: Any) -> None:
    """InputError, before anything is loaded, for arguments that the method cannot run with."""
    missing = [name for name in NEEDED if getattr(server_args, f"speculative_{name}") is None]
    if missing:
        raise InputError(
            "EVICT needs its tree and its draft named",
            seen="missing " + ", ".join(f"speculative_{name}" for name in missing),
            hint=EXAMPLE,
        )
    steps, topk = server_args.speculative_num_steps, server_args.speculative_eagle_topk
    draft_tokens = server_args.speculative_num_draft_tokens
    _check_tree(steps, topk, draft_tokens)
    for wrong, why in REFUSED.items():
        check, advice = why
        if check(server_args):
            raise InputError(f"EVICT does not run with {wrong}", seen=wrong, hint=advice)
    EvictConfig.load().check(steps, topk, draft_tokens)


def _check_tree(steps: int, topk: int, draft_tokens: int) -> None:
    if topk < 2:
        raise InputError(
            "EVICT cuts draft trees; topk 1 drafts a chain",
            seen=f"speculative_eagle_topk={topk}",
            allowed=">= 2",
            hint="--speculative-eagle-topk 8",
        )
    largest = level_capacity(steps, topk) + 1
    if not 2 <= draft_tokens <= largest:
        raise InputError(
            "more draft tokens than the tree has nodes",
            seen=f"speculative_num_draft_tokens={draft_tokens}",
            allowed=f"2..{largest} with {steps} steps and topk {topk}",
        )


def _dp_attention(args: Any) -> bool:
    return bool(args.enable_dp_attention) or (args.attn_dp_size or 1) > 1


def _trtllm(args: Any) -> bool:
    names = (args.attention_backend, args.prefill_attention_backend, args.decode_attention_backend)
    return "trtllm_mha" in names


def _lossy(args: Any) -> bool:
    names = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")
    return any(getattr(args, name) != 1.0 for name in names)


Check = Callable[[Any], bool]
REFUSED: dict[str, tuple[Check, str]] = {
    "DP attention": (_dp_attention, "drop --enable-dp-attention and --attn-dp-size"),
    "data parallelism in one server": (lambda args: args.dp_size > 1, "--dp-size 1"),
    "pipeline parallelism": (lambda args: args.pp_size > 1, "--pp-size 1 and --tp-size"),
    "adaptive speculation": (
        lambda args: bool(args.speculative_adaptive),
        "drop --speculative-adaptive: both choose the verify length",
    ),
    "rejection sampling": (
        lambda args: bool(args.speculative_use_rejection_sampling),
        "drop --speculative-use-rejection-sampling: it needs topk 1",
    ),
    "multi-layer EAGLE": (
        lambda args: bool(args.enable_multi_layer_eagle),
        "drop --enable-multi-layer-eagle",
    ),
    "two-batch overlap": (
        lambda args: bool(args.enable_two_batch_overlap),
        "drop --enable-two-batch-overlap",
    ),
    "accept thresholds other than 1": (_lossy, "drop them: they change the output distribution"),
    "the attention backend trtllm_mha": (_trtllm, "--attention-backend flashinfer"),
}
