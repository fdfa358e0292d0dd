"""Numbers to reach, measured: `python -m benchmarks.networks` from the project's folder.

Times are CPU times, in which threads that wait for each other count as if they worked. So one
thread is used unless the environment says otherwise, and that must be said before NumPy loads.
"""

import os
import sys

THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

if "numpy" not in sys.modules:
    for name in THREADS:
        os.environ.setdefault(name, "1")
