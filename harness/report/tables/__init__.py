"""Tables by name: a new one is a function from a model's runs to a frame, and one line here."""

from __future__ import annotations

from harness.report.blocks import BLOCK
from harness.report.spec import TableSpec
from harness.report.tables.drift import drift
from harness.report.tables.floor import floor
from harness.report.tables.mat import mat
from harness.report.tables.outputs import outputs
from harness.report.tables.replay import regret, replay_check
from harness.report.tables.resources import resources
from harness.report.tables.runs import runs, spread, tuning
from harness.report.tables.speed import table1, table1_paper, table1_speedup
from harness.report.tables.steps import acceptance, reductions, shares
from harness.report.tables.summary import ROLES, summary
from harness.report.tables.trees import calibration, union

__all__ = ["BLOCK", "ROLES", "TABLES", "summary"]

PAIRED = (
    "geometric mean over prompts of paired time-per-token ratios, with the 95 % interval over "
    "prompts, the wider of BCa bootstrap and Student's t at each end (repeats and turns of a "
    "prompt are one cluster)"
)
SPECS = (
    TableSpec(
        "table1",
        "Decoding speed",
        "Committed decode tokens per second of decoding, pooled over prompts and repeats; average: "
        "mean of the benchmarks, with the speedup over plain decoding in parentheses (the paper's "
        "tables 1, 5 and 6).",
        table1,
    ),
    TableSpec(
        "table1_speedup",
        "Paired speedups",
        f"Speedup over plain decoding, over the full tree and over a tuned fixed k: {PAIRED}. An "
        "interval that holds 1 shows no difference.",
        table1_speedup,
    ),
    TableSpec(
        "floor",
        "Plain decoding against itself",
        f"Plain decoding measured once more, over plain decoding: {PAIRED}. Two equal arms: an "
        "interval that leaves out 1 says how far the machine, not a method, can move a speedup.",
        floor,
    ),
    TableSpec(
        "table1_paper",
        "Speed ratios beside the paper's",
        "Quotients of pooled decoding speeds, ours / the paper's, in the same arithmetic.",
        table1_paper,
    ),
    TableSpec(
        "mat",
        "Mean accepted tokens",
        "Mat: committed decode tokens per step, prefill's token not counted, step-weighted; in "
        "parentheses the share of the full tree's Mat; after the slash the paper's (its tables 2 "
        "to 4).",
        mat,
    ),
    TableSpec(
        "reductions",
        "What truncation saves",
        "Reduction of the mean per step against the full tree, in %: verified nodes (root "
        "included), distinct experts per layer, verify time; the paper's claims are averages over "
        "its Mat range (section 4.3).",
        reductions,
    ),
    TableSpec(
        "shares",
        "Drafted, verified, accepted, committed",
        "Means per step and shares. Drafted and accepted count draft nodes, verified counts the "
        "root too; the three ratios leave the root out. d/v/e/o: draft, verify, extend and other "
        "share of the step time.",
        shares,
    ),
    TableSpec(
        "acceptance",
        "Acceptance by position",
        "Share of steps that accept exactly, at least (marginal), and one more once there "
        "(conditional) so many draft nodes, over all benchmarks.",
        acceptance,
    ),
    TableSpec(
        "outputs",
        "Greedy outputs against plain decoding",
        "Pairs of equal input at temperature 0. Near tie: the target's two best tokens are so "
        "close that rounding decides; stop rule: one is the other cut short; fault: a difference "
        "that nothing excuses. First divergence: the earliest token at which a pair parts. "
        "Itself: how many outputs of plain decoding differ from its own, measured again.",
        outputs,
    ),
    TableSpec(
        "calibration",
        "Calibration of the draft scores",
        "Node scores against the target's verdict on every node of the recorded trees: ECE over "
        "10 equal-width bins, Brier score; likely: nodes with a score of at least 0.1.",
        calibration,
    ),
    TableSpec(
        "regret",
        "Regret on recorded trees",
        "Predicted, not measured: committed tokens per ms with step times from the cost table, on "
        "the path that was recorded. Regret: share of the best rate that any choice of verify "
        "lengths reaches there with the outcome known (exact bound); in parentheses against the "
        "best ratio of each step.",
        regret,
    ),
    TableSpec(
        "replay_check",
        "Replay against live",
        "Steps of the recorded run compared with the replay of the same method on its trees; a "
        "faithful replay differs in none.",
        replay_check,
    ),
    TableSpec(
        "union",
        "Expert union by verify length",
        "Distinct experts per layer when the first k nodes are verified, mean over recorded steps "
        "and layers; uniform: expected if routing were uniform and independent.",
        union,
    ),
    TableSpec(
        "tuning",
        "Tuned settings",
        "Settings chosen on calibration prompts, which are never measured.",
        tuning,
    ),
    TableSpec(
        "spread",
        "Spread between repeats",
        "Decoding speed per repeat over all benchmarks: mean and 95 % Student-t half-width over "
        "repeats; percentiles of the step time.",
        spread,
    ),
    TableSpec(
        "drift",
        "Drift of the machine",
        "Change of the time per token from the first to the last generation of a process, each "
        "held against its own repeats, with its 95 % jackknife interval; above 0 the machine "
        "became slower.",
        drift,
    ),
    TableSpec(
        "resources",
        "What each method took",
        "During generations only, over all benchmarks and repeats: processor time of the harness "
        "and its descendants, memory peaks, energy, joules per committed token; median GPU clock "
        "at work; cores that other processes kept busy, in the run with the most.",
        resources,
    ),
    TableSpec(
        "summary",
        "All blocks",
        "Every experiment, temperature, benchmark and method. Speedups: " + PAIRED + ".",
        summary,
    ),
    TableSpec("runs", "Runs", "Every run read, with its verdict.", runs),
)
TABLES: dict[str, TableSpec] = {spec.name: spec for spec in SPECS}
