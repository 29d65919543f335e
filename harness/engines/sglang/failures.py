"""Why a server died, read from its log: a kind, what happened, the last lines, what to change."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "oom_graph_capture",
    "oom_weights",
    "oom_kv_pool",
    "unknown_algorithm",
    "wrong_version",
    "port_in_use",
    "draft_mismatch",
    "import_error",
    "other",
]
LAST_LINES = 30
LINE_CHARACTERS = 300
OUT_OF_MEMORY = (
    r"OutOfMemoryError|out of memory|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED"
)


class ServerFailed(RuntimeError):
    """A server that ended or never answered: `kind`, `what`, `log_lines` (last 30) and `hint`."""

    def __init__(self, kind: Kind, what: str, log_lines: tuple[str, ...], hint: str) -> None:
        self.kind = kind
        self.what = what
        self.log_lines = log_lines
        self.hint = hint
        super().__init__(kind, what, log_lines, hint)

    def __str__(self) -> str:
        tail = [f"last {len(self.log_lines)} log lines:", *(f"  {line}" for line in self.log_lines)]
        return "\n".join([f"{self.kind}: {self.what}", f"try: {self.hint}", *tail])


@dataclass(frozen=True)
class Rule:
    """One known failure: all `patterns` occur in the part of the log where the server failed."""

    kind: Kind
    patterns: tuple[str, ...]
    what: str
    hint: str

    def applies(self, text: str) -> bool:
        """Whether every pattern is found."""
        return all(re.search(pattern, text, re.IGNORECASE) for pattern in self.patterns)


RULES = (
    Rule(
        "wrong_version",
        (
            r"InputError: [^\n]*SGLang version"
            r"|less than the minimum required version"
            r"|minimum required version \S+ is not installed",
        ),
        "a package of the server's environment has a version that is not supported",
        "pip install 'evict-bench[sglang]' in the environment that runs the server",
    ),
    Rule(
        "unknown_algorithm",
        (r"Unknown speculative algorithm name",),
        "SGLang does not know the speculative algorithm: its plugin did not load",
        "pip install -e . in the environment that runs the server (the plugin is found by its "
        "entry point); if SGLANG_PLUGINS is set, it must name evict",
    ),
    Rule(
        "oom_graph_capture",
        (
            OUT_OF_MEMORY,
            r"captur\w*[^\n]{0,40}graph|graph[^\n]{0,20}captur"
            r"|graph_runner\w*\.py[^\n]* in _?(?:\w+_)?capture",
        ),
        "out of memory while CUDA graphs were captured",
        "lower mem_fraction_static, capture smaller batches (cuda_graph_max_bs) or fewer tiers "
        "(verification widths), or use engine=sglang_eager",
    ),
    Rule(
        "oom_kv_pool",
        (r"Not enough memory\. Please try to increase|leave no GPU memory for the KV cache",),
        "the weights leave no room for the KV pool",
        "raise mem_fraction_static (it covers weights and KV pool together), lower "
        "max_total_tokens, or use more tensor-parallel GPUs",
    ),
    Rule(
        "oom_kv_pool",
        (OUT_OF_MEMORY, r"memory_pool|kv_cache_configurator|kv_pool|init_memory"),
        "out of memory while the KV pool was allocated",
        "lower mem_fraction_static or max_total_tokens, and check that nothing else holds the GPU",
    ),
    Rule(
        "oom_weights",
        (OUT_OF_MEMORY, r"load_model|load_weights|create_weights|initialize_model"),
        "out of memory while weights were loaded",
        "use more tensor-parallel GPUs, a quantized checkpoint or a smaller model, and check that "
        "nothing else holds the GPU",
    ),
    Rule(
        "port_in_use",
        (r"address already in use|port is already in use|used by a process already",),
        "the port was taken while the server was starting",
        "start again: a free port is chosen where none is given",
    ),
    Rule(
        "draft_mismatch",
        (
            r"Attempted to load weight|mat1 and mat2 shapes|size mismatch|size of tensor a"
            r"|eagle3?\.py[^\n]* in load_weights",
            r"eagle|draft",
        ),
        "the draft checkpoint does not fit this target",
        "check that the draft was trained for this target: hidden size, vocabulary and d2t map, "
        "eagle_config.eagle_aux_hidden_state_layer_ids",
    ),
    Rule(
        "import_error",
        (r"ModuleNotFoundError|ImportError|No module named",),
        "a Python module of the server could not be imported",
        "pip install 'evict-bench[sglang]' in the environment that runs the server",
    ),
)
UNKNOWN = "read the last lines; the whole log is beside the results"
OTHER_MEMORY = "lower mem_fraction_static, the batch size or the context length"


def diagnose(log: str, happened: str, hint: str | None = None) -> ServerFailed:
    """The error to raise for a server that failed.

    log: what the server wrote, secrets removed. happened: what was seen from outside ("exit status
    1 after 3.2 s"). hint: what to do where the log shows no known failure.
    """
    lines = tuple(log.splitlines()[-LAST_LINES:])
    part = failing_part(log)
    for rule in RULES:
        if rule.applies(part):
            cause = _last_line(rule.patterns[0], part)
            return ServerFailed(rule.kind, f"{rule.what}; {happened}{cause}", lines, rule.hint)
    fallback = OTHER_MEMORY if re.search(OUT_OF_MEMORY, part, re.IGNORECASE) else UNKNOWN
    cause = _last_line(r"^(?:[\w.]+\.)?\w*(?:Error|Exception): ", part)
    return ServerFailed("other", f"{happened}{cause}", lines, hint or fallback)


def failing_part(log: str) -> str:
    """From the first traceback or error line (a plugin's, or the one that ended it) to the end.

    Lines before it tell of a healthy start, and the dump of all arguments names every feature; a
    log without such a line is taken whole, that dump left out.
    """
    start = re.search(r"Traceback \(most recent call last\)|^[^\n]*\bERROR:", log, re.MULTILINE)
    text = log[start.start() :] if start else log
    return "\n".join(line for line in text.splitlines() if "server_args=" not in line)


def _last_line(pattern: str, part: str) -> str:
    """The last line that holds the pattern, in brackets and shortened; empty where none does."""
    found = [line for line in part.splitlines() if re.search(pattern, line, re.IGNORECASE)]
    return f" ({found[-1].strip()[:LINE_CHARACTERS]})" if found else ""
