"""How clear the target's choice of one token was, asked of a server that speculates on nothing."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from harness.engines.sglang.client import Client
from harness.engines.sglang.metadata import UnreadableReply
from harness.engines.sglang.sampling import Sampling
from harness.equality import LISTED, NextTokens

FIELD = "output_top_logprobs"


def top_gap(client: Client, ids: Sequence[int]) -> NextTokens:
    """The likeliest tokens after `ids`; the server's cache is left as empty as before.

    UnreadableReply for an answer without their log-probabilities; a ServerError for none.
    """
    document = client.post("/generate", question(ids))
    client.flush_cache()
    return _read(document)


def question(ids: Sequence[int]) -> dict[str, Any]:
    """The body that asks for one greedy token and the best log-probabilities there."""
    return {
        "rid": f"gap-{secrets.token_hex(6)}",
        "input_ids": list(ids),
        "sampling_params": Sampling(1).body(),
        "return_logprob": True,
        "top_logprobs_num": LISTED,
        "stream": False,
    }


def _read(document: Mapping[str, Any]) -> NextTokens:
    """SGLang 0.5.23 lists (log-probability, id, text) per new token, the likeliest first."""
    meta = document.get("meta_info")
    try:
        found = [(float(logprob), int(token)) for logprob, token, _ in meta[FIELD][0]]  # type: ignore[index]
        best = found[0][0]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise UnreadableReply(f"{FIELD}: no log-probabilities in {meta!r}") from error
    return NextTokens(
        tuple(token for _, token in found), tuple(best - logprob for logprob, _ in found)
    )
