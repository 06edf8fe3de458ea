"""Counting the images: every test that examines disks says how many, and the summary adds them up."""

import os

import pytest
from hypothesis import HealthCheck, settings

from eventlog.errors import LogRefused

# How quickly examples are made says something about the machine and its other users, and nothing about us.
# In a CI the same examples are tried each time, so that its verdict is about the change.
settings.register_profile(
    "ours",
    suppress_health_check=[HealthCheck.too_slow],
    deadline=None,
    derandomize="CI" in os.environ,
    print_blob=True,
)
settings.load_profile("ours")

_IMAGES = "images examined"
_BREACH = "promise broken"


@pytest.fixture
def count_images(request):
    """Note that so many more images were examined; the terminal summary adds them up over all tests."""
    noted = request.node.user_properties
    place = len(noted)
    noted.append((_IMAGES, 0))

    def note(examined):
        noted[place] = (_IMAGES, noted[place][1] + examined)

    return note


@pytest.fixture(scope="session")
def images_scale():
    """How many times as many images as usual are wanted: EVRUN_IMAGES, 1 unless set."""
    return float(os.environ.get("EVRUN_IMAGES", "1"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Note on the report which promise a failed examination found broken."""
    report = yield
    if call.excinfo is not None and "count_images" in getattr(item, "fixturenames", ()):
        error = call.excinfo.value
        breach = getattr(error, "breach", "refused" if isinstance(error, LogRefused) else "other")
        report.user_properties.append((_BREACH, breach))
    return report


def pytest_terminal_summary(terminalreporter):
    """One line: how many images, and what was found. Works with any number of workers."""
    reports = [
        report
        for kind in ("passed", "failed")
        for report in terminalreporter.stats.get(kind, ())
        if report.when == "call"
    ]
    noted = [noted for report in reports for noted in report.user_properties]
    examined = sum(value for name, value in noted if name == _IMAGES)
    breaches = [value for name, value in noted if name == _BREACH]
    if not examined and not breaches:
        return
    terminalreporter.write_line(
        f"crash and damage images: {examined:,} examined, "
        f"{breaches.count('lost')} acknowledged commits lost, {breaches.count('silent')} silent, "
        f"{breaches.count('refused')} legal refused"
        + (f"; {breaches.count('other')} tests failed otherwise" if "other" in breaches else "")
    )
