"""The report as one self-contained HTML page."""

from harness.report.page.render import render

__all__ = ["render"]
