"""What a stream says about the steps: tokens of each, and how long each took, where it can tell.

One event is one step unless the server was too busy to send it: then the next event holds both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from harness.consistency import InconsistentTrace
from harness.counting import acceptance_histogram
from harness.engines.sglang.metadata import MetaInfo
from harness.engines.sglang.reply import Chunk, Reply


def accepted_by_stream(reply: Reply) -> list[int] | None:
    """Draft nodes kept per step, the last step uncut; None where events were merged.

    InconsistentTrace for more events than steps, or another histogram than the server's.
    """
    chunks, meta = reply.chunks[1:], reply.meta
    if meta.verify_steps is None:
        return [0] * (len(reply.ids) - 1)
    if len(chunks) > meta.verify_steps:
        raise InconsistentTrace(f"{len(chunks)} events for {meta.verify_steps} verify steps")
    return _each(chunks, meta) if len(chunks) == meta.verify_steps else None


def accepted_by_histogram(meta: MetaInfo) -> list[int]:
    """Draft nodes kept per step in unknown order; the longest step is put last.

    It alone surely holds all the tokens that a stop rule may have cut.
    """
    if meta.accepted_histogram is None:
        raise InconsistentTrace(f"merged events of {meta.verify_steps} steps, and no histogram")
    return [i for i, count in sorted(meta.accepted_histogram.items()) for _ in range(count)]


def committed_tokens(accepted_S: Sequence[int], decoded: int) -> list[int]:
    """Tokens per step that reached the user: accepted + 1, the last step cut by the stop rule.

    decoded: tokens after prefill's. InconsistentTrace unless the last step can hold the difference.
    """
    committed_S = [accepted + 1 for accepted in accepted_S]
    surplus = sum(committed_S) - decoded
    last = committed_S[-1] if committed_S else 1
    if not 0 <= surplus < last:
        raise InconsistentTrace(
            f"{len(committed_S)} steps commit {sum(committed_S)} tokens, decode returned "
            f"{decoded}; a stop rule cuts at most {last - 1}"
        )
    if committed_S:
        committed_S[-1] -= surplus
    return committed_S


def step_gaps(reply: Reply, committed_S: Sequence[int]) -> list[float] | None:
    """Milliseconds from the event before each step's; None where events were merged.

    An event holds whole steps of known order: InconsistentTrace for a border inside one.
    """
    tokens = [chunk.tokens for chunk in reply.chunks[1:]]
    if not set(accumulate(tokens)) <= set(accumulate(committed_S)):
        raise InconsistentTrace(f"events hold {tokens} tokens, steps commit {list(committed_S)}")
    if len(tokens) < len(committed_S):
        return None
    return reply.times.step_gap_ms


def _each(chunks: Sequence[Chunk], meta: MetaInfo) -> list[int]:
    """All but the last step commit what they accept and one token more."""
    accepted_S = [chunk.tokens - 1 for chunk in chunks]
    if accepted_S and meta.correct_drafts is not None:
        accepted_S[-1] = meta.correct_drafts - sum(accepted_S[:-1])
    found = acceptance_histogram(accepted_S)
    if meta.accepted_histogram not in (None, found):
        raise InconsistentTrace(
            f"steps by accepted drafts: the stream's {found}, the server's "
            f"{meta.accepted_histogram}"
        )
    return accepted_S
