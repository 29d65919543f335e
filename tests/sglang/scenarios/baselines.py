"""SGLang as it is: plain decoding, EAGLE-3 and NGRAM, each in a process of its own.

Scenario functions: called by name through `tests.sglang.process.run_scenario`; plain data in, plain
data out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.sglang.scenarios.sampling import sampling_p_value
from tests.sglang.scheduler import open_scheduler
from tests.sglang.workload import Workload, serve, stress


def plain(target: str) -> dict[str, Any]:
    """The stress workload by plain decoding, with transformers' own answers to it."""
    workload = stress()
    served = serve(open_scheduler(None, Path(target)), workload)
    return {**served, "transformers": by_transformers(target, workload)}


def eagle3(target: str, draft: str, **server_args: Any) -> dict[str, Any]:
    """The stress workload by EAGLE-3, sampling, and the workload without a tree mask.

    unsampled, sampled: p-values of temperature 1 before and after `sampling.install`.
    """
    from tests.sglang import sampling

    session = open_scheduler("EAGLE3", Path(target), Path(draft), **server_args)
    served = serve(session, stress())
    served["unsampled"] = sampling_p_value(session, target, stress().prompts[:6], 20)
    sampling.install()
    served["sampled"] = sampling_p_value(session, target, stress().prompts[:12], 80)
    os.environ["EVICT_STANDIN_FAULT"] = "mask"
    served["faulty"] = serve(session, stress())["outputs"]
    return served


def ngram(target: str, **server_args: Any) -> dict[str, Any]:
    """The stress workload by NGRAM, which learns from the first pass; outputs of the second."""
    session = open_scheduler("NGRAM", Path(target), **server_args)
    first = serve(session, stress())
    second = serve(session, stress())
    return {**second, "first": first["outputs"]}


def by_transformers(target: str, workload: Workload) -> list[list[int]]:
    """Greedy continuations of the same checkpoint by transformers, one request after the other."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
    outputs = []
    for prompt, length in zip(workload.prompts, workload.lengths, strict=True):
        tokens = model.generate(
            torch.tensor([prompt]), max_new_tokens=length, do_sample=False, eos_token_id=None
        )
        outputs.append(tokens[0, len(prompt) :].tolist())
    return outputs
