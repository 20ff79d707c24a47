"""The settings of the team's server, read while their files change."""

from pathlib import Path

from agent_memory.config import Settings, UpstreamSettings
from agent_memory.features.upstream.model.erasures import MAX_HOURS
from agent_memory.features.upstream.remote_reader import RemoteReader
from agent_memory.kernel.errors import StorageFailed


class Keys:
    """The file of the key, which the system may refuse to read for a moment."""

    refused = False

    def read(self, url: str) -> str:
        if self.refused:
            raise StorageFailed(f"the key for {url}: too many open files")
        return "key"

    def write(self, _url: str, _key: str, /) -> None:
        raise AssertionError

    def remove(self) -> None:
        raise AssertionError


def build_reader(keys: Keys, file: Path) -> RemoteReader:
    upstream = UpstreamSettings(url="https://team.example", erase_hours=2160)
    return RemoteReader(lambda: Settings(upstream=upstream), keys, [file])


def test_what_waits_is_not_erased_early_while_settings_cannot_be_read(tmp_path: Path) -> None:
    keys, file = Keys(), tmp_path / "config.toml"
    reader = build_reader(keys, file)
    assert reader.read().erase_hours == 2160

    keys.refused = True
    file.write_text("changed")

    assert (reader.read().url, reader.read().erase_hours) == ("", 2160)


def test_before_they_were_ever_read_the_longest_wait_counts(tmp_path: Path) -> None:
    keys = Keys()
    keys.refused = True

    assert build_reader(keys, tmp_path / "config.toml").read().erase_hours == MAX_HOURS


def test_a_file_that_could_not_be_read_is_read_again_without_a_change(tmp_path: Path) -> None:
    keys = Keys()
    keys.refused = True
    reader = build_reader(keys, tmp_path / "config.toml")
    assert not reader.read().url

    keys.refused = False

    assert reader.read().url == "https://team.example"
