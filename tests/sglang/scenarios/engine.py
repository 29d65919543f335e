"""SGLang's Engine as users start it: tokenizer, scheduler and detokenizer in spawned processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sglang.scheduler import server_arguments
from tests.sglang.workload import stress


def engine(algorithm: str, target: str, draft: str | None, **server_args: Any) -> dict[str, Any]:
    """The stress workload, all requests at once; outputs: token ids per request."""
    import sglang

    arguments = server_arguments(
        algorithm, Path(target), Path(draft) if draft else None, skip_tokenizer_init=False
    )
    running = sglang.Engine(**arguments, skip_server_warmup=True, **server_args)
    try:
        workload = stress()
        sampling = [
            {"temperature": 0, "max_new_tokens": length, "ignore_eos": True}
            for length in workload.lengths
        ]
        answers = running.generate(input_ids=workload.prompts, sampling_params=sampling)
        return {
            "outputs": [answer["output_ids"] for answer in answers],
            "texts": [answer["text"] for answer in answers],
        }
    finally:
        running.shutdown()
