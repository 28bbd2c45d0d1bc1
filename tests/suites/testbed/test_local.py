"""A run on this machine: what its process finds in its environment."""

import sys

from suites.testbed import local


def test_every_library_chooses_its_kernels_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("KEPT", "yes")
    code = "import os; print([os.environ.get(name) for name in ('OPENBLAS_CORETYPE', 'KEPT', 'OPENBLAS_NUM_THREADS')])"
    outcome = local.run([sys.executable, "-c", code], tmp_path, 30.0, lambda: None)
    assert outcome.exit_status == 0
    assert "[None, 'yes', '1']" in outcome.tail
