"""A table as files: numbers as CSV, texts as Markdown and as LaTeX (booktabs)."""

from __future__ import annotations

from pathlib import Path

from harness.report.book import Shown

DIGITS = "%.6g"
LONG = 40
LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "ρ": r"$\rho$",
    "τ": r"$\tau$",
    "β": r"$\beta$",
    "–": "--",
}
MARKDOWN = {"\\": r"\\", "|": r"\|", "<": "&lt;", "*": r"\*", "_": r"\_", "`": r"\`"}


def write_table(shown: Shown, folder: Path, stem: str) -> list[Path]:
    """Write stem.csv, stem.md and stem.tex; equal tables give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "csv": shown.frame.to_csv(index=False, float_format=DIGITS, lineterminator="\n"),
        "md": markdown(shown),
        "tex": latex(shown, stem),
    }
    paths = []
    for suffix, text in texts.items():
        paths.append(folder / f"{stem}.{suffix}")
        paths[-1].write_bytes(text.encode("utf-8", "replace"))
    return paths


def markdown(shown: Shown) -> str:
    """Title, pipe table, caption."""
    rows = [[_mapped(text, MARKDOWN) for text in row] for row in (shown.heads, *shown.text_rows)]
    widths = [max(3, *(len(row[i]) for row in rows)) for i in range(len(shown.heads))]
    lines = [f"| {' | '.join(t.ljust(w) for t, w in zip(r, widths, strict=True))} |" for r in rows]
    lines.insert(1, f"|{'|'.join('-' * (width + 2) for width in widths)}|")
    title, caption = (_mapped(text, MARKDOWN) for text in (shown.spec.title, shown.spec.caption))
    return "\n".join([f"### {title}", "", *lines, "", caption, ""])


def latex(shown: Shown, stem: str) -> str:
    """A table environment no wider than the text; beyond 40 rows a longtable.

    Needs the packages booktabs, and graphicx or longtable.
    """
    caption = _mapped(f"{shown.spec.title}. {shown.spec.caption}", LATEX)
    label = rf"\caption{{{caption}}}\label{{tab:{stem.replace('_', '-')}}}"
    columns = "l" * len(shown.heads)
    head, body = _latex_row(shown.heads), [_latex_row(row) for row in shown.text_rows]
    if len(body) > LONG:
        lines = [r"% needs booktabs, longtable", r"{\scriptsize"]
        lines += [rf"\begin{{longtable}}{{{columns}}}", label + r" \\"]
        lines += [r"\toprule", head, r"\midrule", r"\endfirsthead"]
        lines += [r"\toprule", head, r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot"]
        return "\n".join([*lines, *body, r"\end{longtable}", "}", ""])
    lines = [r"% needs booktabs, graphicx", r"\begin{table}[htbp]", r"\centering", label]
    lines += [r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{table}", ""])


def _latex_row(texts: list[str]) -> str:
    # The empty group keeps a cell that opens with [ from being read as an argument of \\.
    return " & ".join("{}" + _mapped(text, LATEX) for text in texts) + r" \\"


def _mapped(text: str, marks: dict[str, str]) -> str:
    """One line, each mark replaced."""
    flat = " ".join(text.split())
    return "".join(marks.get(char, char) for char in flat)
