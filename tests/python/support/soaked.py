"""Cases of which the tests need not run all."""

import pytest


def soaked(*cases) -> list:
    """Cases for `parametrize` that only `make soak` runs."""
    return [pytest.param(case, marks=pytest.mark.soak) for case in cases]


def soaked_all(*cases: tuple) -> list:
    """The same of tests with several arguments, which a case has together."""
    return [pytest.param(*case, marks=pytest.mark.soak) for case in cases]


def soaked_but(kept: set[str], cases: list) -> list:
    """The same with models, of which the tests run those with these names."""
    assert kept <= {case.name for case in cases}
    return [case if case.name in kept else soaked(case)[0] for case in cases]
