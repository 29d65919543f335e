"""The lab model: its corpus, training and files."""
