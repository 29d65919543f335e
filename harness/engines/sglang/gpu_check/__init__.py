"""What only a GPU can answer about EVICT in SGLang, asked in minutes and written as one JSON."""
