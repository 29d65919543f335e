"""What recording costs, measured interleaved; run alone: pytest -m slow -s -k overhead."""

from __future__ import annotations

import pytest

from harness.engines.base import Method
from harness.engines.torch.decode import Decoder
from harness.engines.torch.engine import TorchEngine
from tests.engines.test_decode import EVICT, FULL, PLAIN, ask, lab_prompts, table
from tests.support.interleaved import paired

pytestmark = pytest.mark.slow

LIMIT = 1.02
TOKENS = 128


@pytest.mark.parametrize("method", [PLAIN, FULL, EVICT], ids=lambda method: str(method.name))
def test_recording_of_every_step(
    lab: TorchEngine, method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step's times, counts and expert union, kept in every run."""
    lab.set_cost(table(lab))

    def decode_ms(prompt: list[int], recorded: bool) -> float:
        with monkeypatch.context() as patch:
            if not recorded:
                patch.setattr(Decoder, "_record", lambda *_: None)
            trace = lab.generate(ask(prompt, TOKENS, ignore_eos=True), method, 0)
        assert bool(trace.steps) == recorded
        return trace.decode_ms

    found = paired(decode_ms, lab_prompts(lab, 2))
    print(f"\ndecode time of {method.name} with recorded steps / without: {found}")
    assert found.high <= LIMIT


def test_recording_of_whole_trees(lab: TorchEngine) -> None:
    """`record_trees` where every node is verified anyway: trees and every node's experts."""

    def decode_ms(prompt: list[int], recorded: bool) -> float:
        request = ask(prompt, TOKENS, ignore_eos=True, record_trees=recorded)
        return lab.generate(request, FULL, 0).decode_ms

    found = paired(decode_ms, lab_prompts(lab, 2))
    print(f"\ndecode time of {FULL.name} with recorded trees / without: {found}")
    assert found.high <= LIMIT
