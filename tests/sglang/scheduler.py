"""SGLang's own scheduler, driven in the current process: no server, no other process.

Nothing of SGLang is replaced but the loop that waits for requests on a socket; batches are planned,
run and processed by the calls its own loop makes. One scheduler per process, which needs the
environment of `tests.sglang.process`.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

CPU: dict[str, Any] = {
    "device": "cpu",
    "dtype": "float32",
    "attention_backend": "torch_native",
    "prefill_attention_backend": "intel_amx",
    "decode_attention_backend": "intel_amx",
    "disable_cuda_graph": True,
    "page_size": 1,
    "max_total_tokens": 16384,
    "max_running_requests": 6,
    "context_length": 512,
    "chunked_prefill_size": 64,
    "random_seed": 0,
    "log_level": "error",
    "skip_tokenizer_init": True,
}
SPECULATIVE: dict[str, Any] = {"speculative_num_draft_tokens": 32}
DRAFT_MODEL: dict[str, Any] = {"speculative_num_steps": 4, "speculative_eagle_topk": 8}
_opened: list[str] = []


def server_arguments(
    algorithm: str | None, target: Path, draft: Path | None, **server_args: Any
) -> dict[str, Any]:
    """Arguments of SGLang's ServerArgs or Engine for a CPU; `server_args` replace the defaults."""
    arguments = {**CPU, "model_path": str(target)}
    if algorithm is not None:
        arguments |= {**SPECULATIVE, "speculative_algorithm": algorithm}
    if draft is not None:
        arguments |= {**DRAFT_MODEL, "speculative_draft_model_path": str(draft)}
    return arguments | server_args


def open_scheduler(
    algorithm: str | None, target: Path, draft: Path | None = None, **server_args: Any
) -> InProcess:
    """Load the checkpoints and start the scheduler, plugins included.

    algorithm: None for plain decoding. draft: checkpoint of the draft model, None where the
    algorithm has none. Error: RuntimeError at a second scheduler in one process.
    """
    if _opened:
        raise RuntimeError(f"one scheduler per process; this one runs {_opened[0]}")
    _opened.append(str(algorithm))
    from sglang.srt.managers.scheduler import Scheduler
    from sglang.srt.plugins import load_plugins
    from sglang.srt.runtime_context import SpawnRanks, publish, spawn_world_rank
    from sglang.srt.server_args import PortArgs, ServerArgs

    load_plugins()
    arguments = ServerArgs(**server_arguments(algorithm, target, draft, **server_args))
    arguments.resolve_once()
    arguments.check_server_args()
    ports = PortArgs.init_new(arguments)
    rank = spawn_world_rank(arguments, tp_rank=0, pp_rank=0)
    publish(arguments, role="scheduler", ranks=SpawnRanks(world_rank=rank, dp_rank=None, gpu_id=0))
    return InProcess(Scheduler(arguments, ports), arguments)


@dataclass
class InProcess:
    """A started scheduler. requests: SGLang's own objects of the last `generate`, prompts' order.

    batches: number of requests in each batch of the last `generate`, in order; chunks: how many of
    them left a prompt half prefilled.
    """

    scheduler: Any
    server_args: Any
    requests: list[Any] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    chunks: int = 0
    _count: int = 0

    @property
    def worker(self) -> Any:
        """SGLang's speculative worker, None for plain decoding."""
        return self.scheduler.draft_worker

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int | Sequence[int],
        *,
        temperature: float = 0.0,
        stagger: int = 0,
        rids: Sequence[str] | None = None,
        ignore_eos: bool = True,
    ) -> list[list[int]]:
        """Token ids of every prompt: exactly max_new_tokens of them where `ignore_eos`.

        stagger: a request joins every so many iterations of the scheduler; 0: all at once. rids:
        request names; new ones where None. Error: RuntimeError when a request was not served.
        """
        lengths = (
            [max_new_tokens] * len(prompts)
            if isinstance(max_new_tokens, int)
            else list(max_new_tokens)
        )
        inputs = [
            self._input(rid, prompt, length, temperature, ignore_eos)
            for rid, prompt, length in zip(
                rids or self._names(len(prompts)), prompts, lengths, strict=True
            )
        ]
        self.requests, self.batches, self.chunks = [], [], 0
        self._serve(deque(inputs), stagger)
        pairs = zip(self.requests, lengths, strict=True)
        return [_output(request, length, ignore_eos) for request, length in pairs]

    def flush(self) -> None:
        """Empty the caches, as the endpoint does. Error: RuntimeError when SGLang declines."""
        if not self.scheduler.flush_cache():
            raise RuntimeError("the scheduler did not flush its cache: requests are pending")

    def _names(self, count: int) -> list[str]:
        self._count += count
        return [f"request-{number}" for number in range(self._count - count, self._count)]

    def _input(
        self, rid: str, prompt: Sequence[int], length: int, temperature: float, ignore_eos: bool
    ) -> Any:
        from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
        from sglang.srt.sampling.sampling_params import SamplingParams

        sampling = SamplingParams(
            temperature=temperature, max_new_tokens=length, ignore_eos=ignore_eos
        )
        sampling.normalize(None)
        return TokenizedGenerateReqInput(
            rid=rid,
            input_text=None,
            input_ids=array("q", prompt),
            input_embeds=None,
            mm_inputs=None,
            token_type_ids=None,
            sampling_params=sampling,
            return_logprob=False,
            logprob_start_len=-1,
            top_logprobs_num=0,
            token_ids_logprob=None,
            stream=False,
        )

    def _serve(self, waiting: deque[Any], stagger: int) -> None:
        import torch

        iteration = 0
        with torch.inference_mode():
            while waiting or not all(request.finished() for request in self.requests):
                if waiting and (stagger == 0 or iteration % stagger == 0):
                    for _ in repeat(None, len(waiting) if stagger == 0 else 1):
                        self._join(waiting.popleft())
                self._iterate()
                iteration += 1
            while self._iterate():
                pass
            self.scheduler.on_idle()

    def _join(self, tokenized: Any) -> None:
        self.scheduler.handle_generate_request(tokenized)
        queued = {request.rid: request for request in self.scheduler.waiting_queue}
        if tokenized.rid not in queued:
            raise RuntimeError(f"{tokenized.rid}: the scheduler did not queue the request")
        self.requests.append(queued[tokenized.rid])

    def _iterate(self) -> bool:
        """One turn of SGLang's `event_loop_normal`; False when there was nothing to run."""
        scheduler = self.scheduler
        plan = scheduler.get_next_batch_to_run(
            running_batch=scheduler.running_batch, last_batch=scheduler.last_batch
        )
        scheduler.running_batch = plan.running_batch
        batch = plan.batch_to_run
        if batch:
            self.batches.append(len(batch.reqs))
            self.chunks += scheduler.chunked_req is not None
            scheduler.process_batch_result(batch, scheduler.run_batch(batch))
        scheduler.last_batch = batch
        return bool(batch)


def _output(request: Any, length: int, exact: bool) -> list[int]:
    tokens = list(request.output_ids_through_stop)[:length]
    if exact and len(tokens) != length:
        reason = request.finished_reason
        raise RuntimeError(f"{request.rid}: {len(tokens)} of {length} tokens, finished by {reason}")
    return tokens
