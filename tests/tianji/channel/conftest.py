"""Every test of the contract runs over every backend."""

from contextlib import ExitStack

import pytest
from edges import SCHEMES, Bench


@pytest.fixture(params=SCHEMES)
def bench(request):
    with ExitStack() as stack:
        yield Bench(request.param, stack)
