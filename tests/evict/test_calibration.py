"""A score map turns draft scores into acceptance rates without changing the order of nodes."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.calibration import FEWEST_POINTS, GRID, ScoreMap, knots
from evict.errors import InputError
from evict.tree import Candidates, DraftTree

IDENTITY = ScoreMap((tuple(knots().tolist()),))
SQUARE = ScoreMap((tuple(knots().tolist()), tuple((knots() ** 2).tolist())))


def rates(score_map: ScoreMap, scores: list[float], depth: int) -> list[float]:
    depths = torch.full((len(scores),), depth, dtype=torch.int64)
    return score_map.apply(torch.tensor(scores), depths).tolist()


def draws(
    size: int, chance: Callable[[np.ndarray], np.ndarray], depth: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores as a drafter gives them (many small), and whether a target with `chance` took them."""
    generator = np.random.default_rng(seed)
    scores = generator.random(size) ** 2
    return scores, np.full(size, depth), generator.random(size) < chance(scores)


def calibration_error(predicted: np.ndarray, accepted: np.ndarray) -> float:
    """Expected calibration error over ten bins of equal width."""
    bins = np.minimum((predicted * 10).astype(int), 9)
    gaps = [abs((predicted - accepted)[bins == b].sum()) for b in range(10)]
    return float(sum(gaps) / len(predicted))


def test_calibrated_scores_are_left_about_as_they_are() -> None:
    score_map = ScoreMap.fit(*draws(40_000, lambda s: s, 1, 1))
    gaps = np.abs(np.array(score_map.table_DG[0]) - knots())
    assert gaps.mean() < 0.02
    assert gaps.max() < 0.08


@pytest.mark.parametrize("power", [0.4, 2.5], ids=["under-confident", "over-confident"])
def test_a_miscalibrated_drafter_is_repaired_on_other_nodes(power: float) -> None:
    score_map = ScoreMap.fit(*draws(20_000, lambda s: s**power, 1, 2))
    scores, depths, accepted = draws(20_000, lambda s: s**power, 1, 3)
    mapped = score_map.apply(torch.tensor(scores).float(), torch.tensor(depths)).numpy()
    before, after = (calibration_error(p, accepted) for p in (scores, mapped))
    assert before > 0.1
    assert after < 0.02


def test_each_depth_learns_its_own_map() -> None:
    """Depth 1 is certain at every score, depth 2 as likely as its score, depth 3 never taken."""
    chances = (np.ones_like, lambda s: s, np.zeros_like)
    parts = [draws(5000, chance, depth, depth) for depth, chance in enumerate(chances, start=1)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    score_map = ScoreMap.fit(*columns)
    assert rates(score_map, [0.1, 0.9], 1) == [1.0, 1.0]
    assert rates(score_map, [0.1, 0.9], 2) == pytest.approx([0.1, 0.9], abs=0.08)
    assert rates(score_map, [0.1, 0.9], 3) == [0.0, 0.0]
    assert rates(score_map, [0.1, 0.9], 7) == [0.0, 0.0]


def test_two_scores_give_their_rates_and_a_line_between() -> None:
    """1/4 and 9/16 are knots: half of 40 nodes taken at one, 54 of 60 at the other."""
    scores = [0.25] * 40 + [0.5625] * 60
    accepted = [1] * 20 + [0] * 20 + [1] * 54 + [0] * 6
    score_map = ScoreMap.fit(scores, [1] * 100, accepted)
    found = rates(score_map, [0.0, 0.25, 0.40625, 0.5625, 1.0], 1)
    assert found == pytest.approx([0.5, 0.5, 0.7, 0.9, 0.9], abs=2e-4)
    against = ScoreMap.fit(scores, [1] * 100, [1] * 30 + [0] * 10 + [1] * 30 + [0] * 30)
    assert rates(against, [0.1, 0.25, 0.5625, 0.9], 1) == pytest.approx([0.6] * 4)


@pytest.mark.parametrize("count", [FEWEST_POINTS - 1, FEWEST_POINTS])
def test_a_depth_with_few_nodes_shares_the_map_of_all(count: int) -> None:
    scores = [0.5] * (100 + count)
    depths = [1] * 100 + [3] * count
    score_map = ScoreMap.fit(scores, depths, [1] * 100 + [0] * count)
    pooled = 100 / (100 + count)
    assert rates(score_map, [0.5], 1) == [1.0]
    assert rates(score_map, [0.5], 2) == pytest.approx([pooled])
    own = 0.0 if count == FEWEST_POINTS else pooled
    assert rates(score_map, [0.5], 3) == pytest.approx([own])


nodes = st.tuples(
    st.sampled_from([0.0, 1.0, 0.5]) | st.floats(0.0, 1.0), st.integers(1, 3), st.booleans()
)


@given(st.lists(nodes, min_size=1, max_size=200), st.lists(st.floats(0, 1, width=32), max_size=30))
@settings(max_examples=100, deadline=None)
def test_maps_never_fall_and_stay_in_range(
    points: list[tuple[float, int, bool]], probes: list[float]
) -> None:
    score_map = ScoreMap.fit(*zip(*points, strict=True))
    assert len(score_map.table_DG) == max(depth for _, depth, _ in points)
    for depth in range(1, 5):
        found = rates(score_map, sorted([0.0, *probes, 1.0]), depth)
        assert found == sorted(found)
        assert 0.0 <= found[0] <= found[-1] <= 1.0
    assert rates(score_map, [0.0, *probes, 1.0], 0) == [1.0] * (len(probes) + 2)


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_between_knots_the_map_is_linear(scores: list[float]) -> None:
    wanted = np.interp(scores, knots(), SQUARE.table_DG[1])
    assert rates(SQUARE, scores, 2) == pytest.approx(wanted, abs=1e-7)
    assert rates(SQUARE, scores, 1) == pytest.approx(scores, abs=1e-7)


def small_tree() -> DraftTree:
    candidates = Candidates(
        tokens_M=torch.tensor([10, 11, 12]),
        parents_M=torch.tensor([-1, 0, -1]),
        depths_M=torch.tensor([1, 2, 1]),
        log_scores_M=torch.tensor([0.5, 0.4, 0.3]).log(),
    )
    return DraftTree.build(7, candidates, 4)


def test_expected_sums_mapped_scores_in_the_order_of_the_tree() -> None:
    """Depth 2 falls below the later depth 1 when squared; it still comes before it."""
    tree = small_tree()
    expected = SQUARE.expected(tree)
    assert expected.dtype == torch.float32
    assert expected.tolist() == pytest.approx([1.0, 1.5, 1.66, 1.96], abs=1e-3)
    assert IDENTITY.expected(tree).tolist() == pytest.approx(tree.expected().tolist(), abs=1e-6)
    assert SQUARE.expected(DraftTree.single(7)).tolist() == [1.0]


def test_mapping_never_looks_at_values() -> None:
    tree = small_tree()
    absent = DraftTree(*(getattr(tree, n).to("meta") for n in DraftTree.__dataclass_fields__))
    mapped = SQUARE.expected(absent)
    assert mapped.device.type == "meta"
    assert mapped.shape == (4,)


def test_a_map_survives_json() -> None:
    score_map = ScoreMap.fit(*draws(500, lambda s: s**2, 2, 4))
    again = ScoreMap.from_dict(json.loads(json.dumps(score_map.to_dict())))
    assert again == score_map
    assert hash(again) == hash(score_map)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, r"not a score map; seen: None"),
        ({}, r"not a score map"),
        ({"table_DG": [[0.0] * GRID], "more": 1}, r"not a score map"),
        ({"table_DG": 3}, r"no table; seen: 3"),
        ({"table_DG": [0.5] * GRID}, r"no table"),
        ({"table_DG": []}, r"without rows"),
        ({"table_DG": [[0.0] * GRID, [0.0] * 3]}, rf"row of depth 2.*allowed: {GRID} numbers"),
        ({"table_DG": [["0"] * GRID]}, rf"row of depth 1.*allowed: {GRID} numbers"),
        ({"table_DG": [[0.0] * (GRID - 1) + [1.1]]}, r"leaves 0\.\.1.*seen: 1\.1 before 1\.0"),
        ({"table_DG": [[-0.1] + [0.0] * (GRID - 1)]}, r"leaves 0\.\.1.*seen: 0\.0 before -0\.1"),
        ({"table_DG": [[0.0, 0.5, 0.4] + [1.0] * (GRID - 3)]}, r"falls; seen: 0\.5 before 0\.4"),
        ({"table_DG": [[0.0, float("nan")] + [1.0] * (GRID - 2)]}, r"seen: 0\.0 before nan"),
    ],
)
def test_other_documents_are_refused(document: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ScoreMap.from_dict(document)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (([], [], []), r"M >= 1 values"),
        (([0.5], [1, 2], [1, 0]), r"seen: \[\(1,\), \(2,\), \(2,\)\]"),
        (([0.5, 1.5], [1, 1], [1, 0]), r"score of a node; seen: 1\.5; allowed: 0\.\.1"),
        (([float("nan")], [1], [1]), r"score of a node; seen: nan"),
        (([0.5], [0], [1]), r"depth of a node; seen: 0; allowed: 1, 2"),
        (([0.5], [1], [0.5]), r"accepted of a node; seen: 0\.5; allowed: 0 or 1"),
    ],
)
def test_points_that_are_none_are_refused(
    points: tuple[list[float], list[int], list[float]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        ScoreMap.fit(*points)
