"""The expert probe: distinct routed experts of verified rows, counted without a wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evict.errors import InputError
from evict.sglang.expert_probe import ExpertProbe
from tests.support.no_sync import NoSync

LAYERS, EXPERTS, TOPK, ROWS = (1, 2, 5), 9, 3, 24
BYPASSED = r"layers \[2\].*pin moe_runner_backend=triton"


def probe_of() -> ExpertProbe:
    return ExpertProbe(LAYERS, EXPERTS, TOPK, ROWS, "cpu")


def routed(seed: int, tokens: int = ROWS, topk: int = TOPK) -> Tensor:
    """Experts of every layer, [L, tokens, topk]; none twice for a token, few enough to repeat."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(len(LAYERS), tokens, EXPERTS, generator=generator).argsort(-1)[..., :topk]


def forward(probe: ExpertProbe, ids_LRT: Tensor) -> None:
    """A target forward as SGLang makes it, keywords included."""
    for layer, ids_RT in zip(LAYERS, ids_LRT, strict=True):
        probe.capture(layer_id=layer, topk_indices=ids_RT)
    probe.on_forward_end(
        forward_batch=None, can_run_graph=True, cuda_graph_batch=None, no_copy_to_cpu=True
    )


def oracle(ids_LRT: Tensor) -> list[int]:
    layers = ids_LRT.flatten(1).tolist()
    return [len({expert for expert in ids if 0 <= expert < EXPERTS}) for ids in layers]


@st.composite
def verifications(draw: st.DrawFn) -> tuple[int, int, Tensor]:
    """k, batch, and the experts of its rows plus padding."""
    batch = draw(st.integers(1, 4))
    k = draw(st.integers(1, ROWS // batch))
    tokens = draw(st.integers(k * batch, ROWS + 6))
    return k, batch, routed(draw(st.integers(0, 2**31)), tokens)


@given(verifications(), st.sampled_from([torch.int32, torch.int64]))
@settings(deadline=None)
def test_unions_count_the_rows_of_the_batch_and_no_padding(
    case: tuple[int, int, Tensor], dtype: torch.dtype
) -> None:
    k, batch, ids_LRT = case
    probe = probe_of()
    probe.arm()
    forward(probe, ids_LRT.to(dtype))
    union_L = probe.unions(k, batch)
    assert union_L.tolist() == oracle(ids_LRT[:, : k * batch])
    assert union_L.dtype == torch.int32


@pytest.mark.parametrize("tokens", [1, 3, 24])
def test_routers_at_both_bounds(tokens: int) -> None:
    """All tokens choose the same experts; tokens choose different ones while there are any."""
    probe = probe_of()
    same = torch.arange(TOPK).expand(len(LAYERS), tokens, TOPK)
    forward(probe, same)
    assert probe.unions(tokens, 1).tolist() == [TOPK] * len(LAYERS)
    forward(probe, (same + TOPK * torch.arange(tokens)[:, None]) % EXPERTS)
    assert probe.unions(1, tokens).tolist() == [min(EXPERTS, TOPK * tokens)] * len(LAYERS)


def test_fused_shared_experts_and_masked_rows_are_not_counted() -> None:
    probe = probe_of()
    ids_LRT = routed(0, tokens=4)
    shared_LR1 = torch.full((len(LAYERS), 4, 1), EXPERTS)
    forward(probe, torch.cat([ids_LRT, shared_LR1], -1))
    assert probe.unions(4, 1).tolist() == oracle(ids_LRT)
    forward(probe, torch.cat([ids_LRT, torch.zeros_like(shared_LR1)], -1)[:, :1])
    assert probe.unions(1, 1).tolist() == [TOPK] * len(LAYERS)
    mixed_LRT = ids_LRT.clone()
    mixed_LRT[:, 1, 0], mixed_LRT[:, 2] = EXPERTS + 1, -1
    forward(probe, mixed_LRT)
    assert probe.unions(4, 1).tolist() == oracle(mixed_LRT)


def test_a_prefill_before_does_not_count() -> None:
    probe = probe_of()
    forward(probe, routed(1, tokens=500))
    probe.arm()
    forward(probe, routed(2, tokens=2))
    assert probe.unions(2, 1).tolist() == oracle(routed(2, tokens=2))
    assert probe.unions(8, 1).tolist() == oracle(routed(2, tokens=2))


def test_a_runner_that_bypasses_the_hook_is_named() -> None:
    probe = probe_of()
    forward(probe, routed(1))
    probe.arm()
    for layer, ids_RT in zip(LAYERS, routed(1, tokens=4), strict=True):
        if layer != 2:
            probe.capture(layer, ids_RT)
    with pytest.raises(InputError, match=BYPASSED):
        probe.check_union(probe.unions(4, 1).tolist())
    probe.capture(2, routed(1, tokens=3)[1])
    probe.check_union(probe.unions(4, 1).tolist())


def test_the_output_processor_gets_nothing() -> None:
    probe = probe_of()
    assert probe.get_topk(req_pool_idx=0, seqlen=9, req_to_token_pool=None, start_len=2) is None
    assert probe.on_forward_end(None, False, None) is None
    probe.destroy()
    probe.destroy()
    forward(probe, routed(3))
    assert probe.unions(ROWS, 1).tolist() == oracle(routed(3))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda probe: probe.capture(0, routed(0)[0]), r"layer; seen: 0; allowed: \(1, 2, 5"),
        (lambda probe: probe.capture(1, routed(0)[0, :, :2]), "too few experts; seen: 2"),
        (lambda probe: probe.unions(7, 4), r"seen: 28; allowed: 1\.\.24"),
        (lambda probe: probe.check_union([3, 3]), "seen: 2; allowed: 3 layers"),
        (lambda probe: ExpertProbe((1, 1), 4, 2, 8, "cpu"), r"each once; seen: \[1, 1\]"),
        (lambda probe: ExpertProbe((), 4, 2, 8, "cpu"), "needs MoE layers"),
        (lambda probe: ExpertProbe((1,), 4, 5, 8, "cpu"), r"seen: 5; allowed: 1\.\.4"),
        (lambda probe: ExpertProbe((1,), 4, 2, 0, "cpu"), "needs a row; seen: 0"),
    ],
)  # fmt: skip
def test_wrong_use_is_refused(wrong: Callable[[ExpertProbe], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        wrong(probe_of())


def test_capturing_and_counting_never_wait() -> None:
    probe = probe_of()
    ids_LRT = routed(4)
    with NoSync():
        probe.arm()
        forward(probe, ids_LRT)
        union_L = probe.unions(4, 2)
    assert union_L.tolist() == oracle(ids_LRT[:, :8])


@pytest.mark.gpu
def test_a_cuda_graph_captures_the_probe() -> None:
    probe = ExpertProbe(LAYERS, EXPERTS, TOPK, ROWS, "cuda")
    ids_LRT = routed(5).cuda()
    forward(probe, ids_LRT)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        forward(probe, ids_LRT)
        union_L = probe.unions(4, 2)
    ids_LRT.copy_(routed(6))
    probe.arm()
    graph.replay()
    assert union_L.tolist() == oracle(routed(6)[:, :8])
