"""What conf/ names: predict the paper's tables; ask whether EVICT pays on a model and a device."""

from __future__ import annotations

from pathlib import Path

from harness.benchmarks import members
from harness.compose import absolute
from harness.config import RunConfig

STEPS = 500  # simulated per benchmark in a what-if


def predict_paper(config: RunConfig) -> None:
    """Predict EVICT's cells, print what came out, write tables and figures. About a minute."""
    from harness.simulate.outputs import print_prediction, write_prediction
    from harness.simulate.predict import predict_paper as predict

    found = predict(seed=config.seed)
    folder = Path(config.results_dir) / config.name
    write_prediction(found, folder)
    print_prediction(found)
    print(f"predicted tables and figures: {folder}")


def what_if(config: RunConfig) -> None:
    """Answer for the engine's hardware and batch size; print, and write tables and figures."""
    from dataclasses import asdict

    from harness.simulate.answers import print_answer, write_answer
    from harness.simulate.basis import Basis
    from harness.simulate.paper import DRAFT_TOKENS, TREE
    from harness.simulate.question import Question
    from harness.simulate.target import Drafter, find_hardware, find_setting
    from harness.simulate.whatif import what_if as answer

    engine, model = config.engine, asdict(absolute(config.model))
    device = find_hardware(engine["hardware"])
    setting = find_setting(model, device, int(engine["batch_size"]), DRAFT_TOKENS, TREE)
    drafter = Drafter.of(config.model.name, engine.get("mat"))
    names = [one.name for one in members(config.benchmark)]
    question = Question(setting, drafter, names, config.temperature)
    found = answer(question, Basis.of(STEPS, config.seed))
    place = f"{config.model.name}-{device.name}-b{setting.batch}-predicted"
    folder = Path(config.results_dir) / config.name / place
    write_answer(found, question, folder)
    print_answer(found, question)
    print(f"predicted tables and figures: {folder}")
