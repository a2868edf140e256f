"""From a PyTorch model to an archive: examples to trace it with, the trace, and the check of what was written."""
