"""The words of the page and what they mean."""

from __future__ import annotations

DEFINITIONS = (
    (
        "step",
        "One forward pass of the target while decoding, with the drafting before it.",
    ),
    (
        "draft tree, root, N",
        "The last committed token (the root) and the tokens a drafter proposes after it. N counts "
        "them all, root included.",
    ),
    (
        "score",
        "Product of the draft probabilities on the path from the root to a node; the root has 1. "
        "Nodes are ranked by score, so the k best always form a tree.",
    ),
    (
        "k, verify length",
        "Nodes in the target's pass, root included, 1 to N. k = N verifies the whole tree "
        "(EAGLE-3).",
    ),
    (
        "drafted, verified, accepted, committed",
        "Nodes proposed; nodes in the target's pass (k); drafted tokens kept; tokens that reach "
        "the user: accepted + 1, less where a stop rule cuts.",
    ),
    (
        "Mat",
        "Mean accepted tokens: committed decode tokens / steps, every step weighing the same. The "
        "token that prefill yields is not counted.",
    ),
    (
        "C(k), C_AR",
        "Measured milliseconds of a whole step (draft, verify, extend and host) at verify length "
        "k; of a plain decoding step.",
    ),
    (
        "S_k",
        "The sum of the k best scores: 1 for the root and the k - 1 best drafted nodes. If draft "
        "probabilities are calibrated, the expected tokens of a step that verifies k nodes.",
    ),
    (
        "U(k)",
        "C_AR * S_k / C(k): expected decode speed relative to plain decoding. EVICT verifies the "
        "smallest k that maximises it.",
    ),
    (
        "oracle, regret",
        "The k of each step that commits the most tokens per millisecond, known only when the step "
        "is over. Regret: the share of the best rate that any choice of verify lengths could have "
        "reached on the same trees which a policy leaves behind.",
    ),
    (
        "experts",
        "Distinct experts that one Mixture-of-Experts layer computes for all k nodes of a step, "
        "averaged over layers.",
    ),
    (
        "decode speed, tok/s",
        "Committed decode tokens / decode seconds; prefill excluded. End-to-end speed (e2e) "
        "counts prefill and its token.",
    ),
    (
        "valid, invalid, unknown",
        "The verdict on a run or a comparison, read off its files. An invalid number is never "
        "shown, averaged or divided by: the code of the reason stands in its place. “?” marks an "
        "unknown one, of which nothing shows that it is right. A disturbed run may have invalid "
        "times and valid counts (Mat, k, experts).",
    ),
    (
        "itself, A/A",
        "Plain decoding measured twice: two equal arms. What their comparison shows is what the "
        "machine, and no method, does to a number.",
    ),
    (
        "drift",
        "The change of the time per token while a block was measured, each generation held against "
        "its own repeats.",
    ),
    (
        "J/token",
        "Joules of the device during generations / committed tokens, prefill’s included.",
    ),
    (
        "speedup",
        "Ratio of decode speeds against a baseline on the same prompt, turn, repeat and machine: "
        "geometric mean over prompts, with the 95 % interval over prompts: at each end the wider "
        "of BCa bootstrap and Student’s t. 1 is the baseline, more is faster.",
    ),
)
