"""Numbers to reach, measured: `python -m benchmarks.networks` from the project's folder."""
