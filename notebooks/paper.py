# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Does verifying fewer tokens pay?
#
# Every number and picture below is computed from run files, here the committed lab runs in `results/reference/paper`.
# To look at your own: set `RESULTS` to the folder that `python run.py +experiment=paper` wrote.
# Nothing in this notebook runs a model.

# %%
import os
from io import BytesIO
from pathlib import Path

import pandas as pd
from IPython.display import Image

from harness.collect import collect
from harness.report.figures import FIGURES
from harness.report.layouts import reservations, texts
from harness.report.spec import Missing
from harness.report.tables import TABLES
from harness.report.verdict_notes import run_verdicts

ROOT = next(folder for folder in (Path.cwd(), *Path.cwd().parents) if (folder / "run.py").is_file())
RESULTS = Path(os.environ.get("EVICT_BENCH_RESULTS", ROOT / "results" / "reference" / "paper"))
data = collect(RESULTS)
print(f"{len(data.runs)} runs, {len(data.requests)} generations, {len(data.steps)} decode steps")
print("\n".join(run_verdicts(data.runs)) or "every run is valid")


def table(name: str) -> pd.DataFrame:
    """A table of the report, as a person reads it, with what must be known beside it."""
    spec = TABLES[name]
    frame = spec.build(data)
    print("\n".join(reservations(spec.name, frame)))
    heads, rows = texts(spec.name, frame)
    return pd.DataFrame(rows, columns=heads)


def figure(name: str) -> Image:
    """A figure of the report."""
    spec, picture = FIGURES[name], BytesIO()
    spec.draw(spec.frame(data)).savefig(picture, format="png", dpi=150)
    return Image(picture.getvalue())


# %% [markdown]
# ## Speed
#
# Decoding speed by method, benchmark and temperature (the paper's table 1), then what a reader should trust more:
# paired speedups with 95 % intervals, over plain decoding, over EAGLE-3 and over the best fixed width.

# %%
table("table1")

# %%
table("table1_speedup")

# %%
figure("speedups")

# %% [markdown]
# ## What is given up and what is saved
#
# EVICT accepts a little less (the paper's tables 2-4) and verifies much less (its figure 5 and section 4.3).

# %%
table("mat")

# %%
table("reductions")

# %%
figure("fig5")

# %% [markdown]
# ## Why the tree is expensive
#
# The union of the experts of all verified nodes grows with the tree, and the step time with it (figures 1 and 2).

# %%
figure("fig1")

# %%
figure("fig2")

# %% [markdown]
# ## Selection without cost, and hindsight
#
# Coverage thresholds and DDD look at draft confidence alone (figure 7). The regret table asks what any choice of widths
# could have reached on the very same recorded trees.

# %%
figure("fig7")

# %%
table("regret")

# %% [markdown]
# ## Can the draft scores be trusted?

# %%
table("calibration")

# %%
figure("reliability")

# %% [markdown]
# ## What could not be built from these runs

# %%
for spec in (*TABLES.values(), *FIGURES.values()):
    try:
        spec.build(data) if hasattr(spec, "build") else spec.frame(data)
    except Missing as gap:
        print(f"{spec.title}: {gap}")
