from __future__ import annotations

from pathlib import Path

import pytest

from harness.exclusive import machine_lock
from tests.support.command import run_py


def test_an_unknown_method_ends_in_short_words(tmp_path: Path) -> None:
    done = run_py("method=nope", cwd=tmp_path)
    assert done.returncode == 2
    assert "evict" in done.stderr
    assert "vanilla" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_key_ends_in_short_words(tmp_path: Path) -> None:
    done = run_py("lmit=3", cwd=tmp_path)
    assert done.returncode == 2
    assert "unknown key; seen: lmit" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("model", ["qwen3_30b", "ling_flash"])
def test_a_paper_model_without_a_gpu_says_so_before_anything_heavy_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    pynvml = pytest.importorskip("pynvml")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        pass
    else:
        pytest.skip("this machine has a GPU")
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    done = run_py(f"model={model}", "method=evict", f"results_dir={tmp_path}/r", cwd=tmp_path)
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "hydra" in imported
    assert not imported & {"torch", "transformers", "pandas", "datasets"}
    assert done.returncode == 2
    assert "GPU(s) with 80 GiB" in done.stderr
    assert "model=lab" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_goes_on_after_a_bad_job_and_names_it(tmp_path: Path) -> None:
    done = run_py("-m", "profile=sometimes,rarely", f"results_dir={tmp_path}/r", cwd=tmp_path)
    assert done.returncode == 2
    assert "2 of 2 jobs failed" in done.stderr
    assert f"profile=rarely results_dir={tmp_path}/r: InputError" in done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["r"]


def test_jobs_of_a_launcher_refuse_a_machine_in_use_and_their_failure_is_the_commands(
    tmp_path: Path,
) -> None:
    with machine_lock("exclusive", tmp_path):
        done = run_py(
            "-m",
            "+cluster=local",
            "hydra.launcher.n_jobs=2",
            "method=vanilla,eagle3",
            "benchmark=qa",
            "limit=1",
            f"results_dir={tmp_path / 'results'}",
            TMPDIR=str(tmp_path),
        )
    assert done.returncode != 0
    assert "another timing run is using this machine" in done.stderr
    assert "machine=wait" in done.stderr
    assert not list((tmp_path / "results").glob("*/*/requests.jsonl"))


def test_a_slurm_preset_asks_for_what_the_model_needs() -> None:
    done = run_py("+cluster=slurm", "model=qwen3_235b", "--cfg", "hydra")
    assert "SlurmLauncher" in done.stdout
    assert "gpus_per_node: ${model.requires.gpus}" in done.stdout
