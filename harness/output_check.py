"""Which runs are held against plain decoding, and with which rows; the check is in outputs.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.measure import Meter
from harness.outputs import check_outputs
from harness.records import RequestRecord
from harness.store import read_records

if TYPE_CHECKING:
    from harness.lanes import Opened


def against_plain(meter: Meter, lanes: Sequence[Opened], one: Opened) -> dict[str, Any] | None:
    """What comparing a greedy run with plain decoding's of the same benchmark found.

    None where there is nothing to compare: sampling, the baseline itself, no baseline in this
    command line, an engine that runs no model.
    """
    run = one.lane.run
    plain = next((other for other in lanes if other.cell.config.baseline == "plain"), None)
    sampled = meter.config.temperature > 0
    if run is None or plain is None or plain is one or sampled or not meter.engine.timed:
        return None
    prompts = {prompt.prompt_id: prompt for prompt in one.prompts}

    def ids_of(row: RequestRecord) -> list[int]:
        return meter.input_ids(run, prompts[row.prompt_id], row.turn, row.repeat)[0]

    beside = plain.lane.run
    rows = beside.records if beside is not None else read_records(plain.cell.path)
    return check_outputs(meter.engine, run.records, rows, ids_of)
