"""The user's time zone: by name, by TZ, by the system's file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent_memory.platform import time_zone
from agent_memory.platform.time_zone import find_zone, is_zone

SUMMER = datetime(2026, 7, 1, tzinfo=UTC)
WINTER = datetime(2026, 1, 1, tzinfo=UTC)


def offsets(name: str, environ: dict[str, str]) -> tuple[timedelta | None, timedelta | None]:
    zone = find_zone(name, environ)
    return WINTER.astimezone(zone).utcoffset(), SUMMER.astimezone(zone).utcoffset()


BERLIN = (timedelta(hours=1), timedelta(hours=2))
KOLKATA = (timedelta(hours=5.5), timedelta(hours=5.5))
NO_OFFSET = (timedelta(0), timedelta(0))


def test_a_name_comes_before_the_systems_zone() -> None:
    assert offsets("Europe/Berlin", {"TZ": "Asia/Kolkata"}) == BERLIN


@pytest.mark.parametrize(
    "written", ["Asia/Kolkata", ":Asia/Kolkata", "/usr/share/zoneinfo/Asia/Kolkata"]
)
def test_tz_is_the_systems_zone(written: str) -> None:
    if written.startswith("/") and not Path(written).exists():
        pytest.skip("this machine has no files of time zones")
    assert offsets("", {"TZ": written}) == KOLKATA


@pytest.mark.parametrize("written", ["Nowhere/Town", "/no/such/file", "/etc/passwd", "/"])
def test_a_tz_that_is_no_zone_is_utc(written: str) -> None:
    assert offsets("", {"TZ": written}) == NO_OFFSET


def test_without_tz_it_is_the_systems_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    berlin = Path("/usr/share/zoneinfo/Europe/Berlin")
    if not berlin.exists():
        pytest.skip("this machine has no files of time zones")
    (tmp_path / "localtime").symlink_to(berlin)
    monkeypatch.setattr(time_zone, "SYSTEM_FILE", tmp_path / "localtime")
    assert offsets("", {}) == BERLIN
    monkeypatch.setattr(time_zone, "SYSTEM_FILE", tmp_path / "missing")
    assert offsets("", {}) == NO_OFFSET


@pytest.mark.parametrize("name", ["", "UTC", "Europe/Berlin", "America/New_York"])
def test_names_of_zones(name: str) -> None:
    assert is_zone(name)


@pytest.mark.parametrize("name", ["Berlin", "Europe", "../../etc/passwd", "/etc/passwd", "\0", " "])
def test_what_is_no_name_is_refused(name: str) -> None:
    assert not is_zone(name)
    with pytest.raises(ValueError):  # noqa: PT011
        find_zone(name)
