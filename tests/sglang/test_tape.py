"""The emulated CUDA graph holds what a captured graph holds, and nothing more."""

from __future__ import annotations

import pytest
import torch

from tests.sglang.tape import Tape
from tests.support.no_sync import HostSync


def test_a_replay_reads_the_inputs_in_place_and_returns_the_same_tensors() -> None:
    x, total = torch.ones(3), torch.zeros(1)

    def step() -> torch.Tensor:
        y = (x * 2).view(3, 1)
        total.add_(y.sum())
        return y

    tape = Tape(step)
    first = tape.replay()
    x.copy_(torch.tensor([1.0, 2.0, 3.0]))
    total.zero_()
    second = tape.replay()
    assert second is first
    assert second.flatten().tolist() == [2, 4, 6]
    assert total.item() == 12


def test_python_values_are_those_of_the_capture() -> None:
    x, factor = torch.ones(2), [3.0]
    tape = Tape(lambda: x * factor[0])
    factor[0] = 5.0
    assert tape.replay().tolist() == [3, 3]


def test_results_are_lost_when_the_memory_is_used_by_another() -> None:
    x = torch.arange(4)
    tape = Tape(lambda: (x + 1, (x + 1).float()))
    whole, real = tape.replay()
    tape.poison()
    assert whole.max() < 0
    assert real.isnan().all()
    assert tape.replay()[0].tolist() == [1, 2, 3, 4]


def test_a_capture_computes_nothing_that_can_be_read() -> None:
    assert Tape(lambda: torch.ones(2) + 1).result.isnan().all()


def test_a_wait_for_the_device_is_refused() -> None:
    x = torch.ones(2)
    with pytest.raises(HostSync):
        Tape(lambda: x * float(x.sum()))
