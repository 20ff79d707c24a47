"""How an endpoint is written, and where a daemon is looked for."""

import json
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_memory.client import DEFAULT_ENDPOINT, ConnectionFailed, InvalidEndpoint
from agent_memory.client.endpoints import choose_key, discover, parse, record_path, resolve


@pytest.mark.parametrize(
    ("text", "target", "tls", "loopback"),
    [
        ("http://[::1]:50051", "dns:///[::1]:50051", False, True),
        ("http://127.0.0.1:1", "dns:///127.0.0.1:1", False, True),
        ("http://127.9.9.9:1", "dns:///127.9.9.9:1", False, True),
        ("http://localhost:65535/", "dns:///localhost:65535", False, True),
        ("http://memory.example.org:80", "dns:///memory.example.org:80", False, False),
        ("http://192.168.0.1:50051", "dns:///192.168.0.1:50051", False, False),
        ("http://[2001:db8::1]:50051", "dns:///[2001:db8::1]:50051", False, False),
        ("https://memory.example.org:443", "dns:///memory.example.org:443", True, False),
        ("https://localhost:50051", "dns:///localhost:50051", True, True),
        ("localhost:50051", "dns:///localhost:50051", False, True),
        ("[::1]:50051", "dns:///[::1]:50051", False, True),
        ("unix:50051", None, False, False),
        ("dns:50051", "dns:///dns:50051", False, False),
        ("unix:/run/user/1/grpc.sock", "unix:/run/user/1/grpc.sock", False, True),
        ("unix:///run/grpc.sock", "unix:/run/grpc.sock", False, True),
        ("unix:/a b/100%/c?#.sock", "unix:/a%20b/100%25/c%3F%23.sock", False, True),
        ("", None, False, False),
        ("localhost", None, False, False),
        ("http://localhost", None, False, False),
        ("http://localhost:", None, False, False),
        ("http://:50051", None, False, False),
        ("http://localhost:0", None, False, False),
        ("http://localhost:65536", None, False, False),
        ("http://localhost:http", None, False, False),
        ("http://localhost:\N{ARABIC-INDIC DIGIT FIVE}", None, False, False),
        ("http://localhost:50051/path", None, False, False),
        ("http://user@localhost:50051", None, False, False),
        ("http://local host:50051", None, False, False),
        ("http://localhost:50051\n", None, False, False),
        ("http://::1:50051", None, False, False),
        ("http://[localhost]:50051", None, False, False),
        ("ftp://localhost:50051", None, False, False),
        ("://localhost:50051", None, False, False),
        ("unix:", None, False, False),
        ("unix:relative.sock", None, False, False),
        ("unix://relative.sock", None, False, False),
        ("unix:/folder/", None, False, False),
        ("unix:/zero\0", None, False, False),
    ],
)
def test_endpoints(text: str, target: str | None, tls: bool, loopback: bool) -> None:
    if target is None:
        with pytest.raises(InvalidEndpoint, match=r"is not an endpoint: .*; write http://"):
            parse(text)
        return

    endpoint = parse(text)

    assert (endpoint.name, endpoint.target) == (text, target)
    assert (endpoint.tls, endpoint.loopback) == (tls, loopback)


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"XDG_DATA_HOME": "/d", "HOME": "/h"}, "/h/.local/share/agent-memory/daemon.json"),
        ({"HOME": "/h"}, "/h/.local/share/agent-memory/daemon.json"),
        ({}, "/.local/share/agent-memory/daemon.json"),
    ],
)
def test_the_record_is_in_the_data_folder(environ: dict[str, str], path: str) -> None:
    assert record_path(environ) == Path(path)


def found(data: Path, record: object = None, **environ: str) -> list[str]:
    environ["HOME"] = str(data)
    if record is not None:
        path = record_path(environ)
        path.parent.mkdir(parents=True)
        path.write_text(record if isinstance(record, str) else json.dumps(record))
    return [endpoint.name for endpoint in discover(environ)]


def test_the_default_ports_are_tried_where_there_is_no_record(tmp_path: Path) -> None:
    assert found(tmp_path) == [DEFAULT_ENDPOINT, "http://127.0.0.1:50051"]


def test_the_record_leads_to_the_socket_first(tmp_path: Path) -> None:
    record = {"pid": 1, "grpc_port": 7, "grpc_socket": "/run/grpc.sock"}

    assert found(tmp_path, record) == [
        "unix:/run/grpc.sock",
        "http://127.0.0.1:7",
        "http://[::1]:7",
    ]


@pytest.mark.parametrize("socket", [{}, {"grpc_socket": None}, {"grpc_socket": ""}])
def test_a_record_without_a_socket_leads_to_the_port(
    tmp_path: Path, socket: dict[str, str | None]
) -> None:
    record = {"pid": 1, "grpc_port": 7, **socket}

    assert found(tmp_path, record) == ["http://127.0.0.1:7", "http://[::1]:7"]


def test_the_environment_rules_over_the_record(tmp_path: Path) -> None:
    record = {"pid": 1, "grpc_port": 7, "grpc_socket": "/run/grpc.sock"}

    assert found(tmp_path, record, MEMORY_ENDPOINT="there:9") == ["there:9"]


def test_an_environment_that_names_no_endpoint_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidEndpoint, match="'there'"):
        found(tmp_path, MEMORY_ENDPOINT="there")


@pytest.mark.parametrize("record", ["", "{", "[1]", "\ud7ff", {}, {"pid": 1}])
def test_a_damaged_record_is_named(tmp_path: Path, record: object) -> None:
    with pytest.raises(ConnectionFailed, match=str(record_path({"HOME": str(tmp_path)}))):
        found(tmp_path, record)


def test_a_record_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    record_path({"HOME": str(tmp_path)}).mkdir(parents=True)

    with pytest.raises(ConnectionFailed, match=r"daemon\.json cannot be read"):
        found(tmp_path)


class TestAPortOfYourOwnDaemon:
    """Without a key it is reached over its socket, where no other user can be listening."""

    @pytest.fixture
    def data(self) -> Iterator[Path]:
        """A data folder with the record of a daemon on port 7, whose socket answers."""
        folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="ame-"))
        record = record_path({"HOME": str(folder)})
        record.parent.mkdir(parents=True)
        path = folder / "grpc.sock"
        record.write_text(json.dumps({"grpc_port": 7, "grpc_socket": str(path)}))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            yield folder
        shutil.rmtree(folder)

    @pytest.mark.parametrize(
        "written", ["http://127.0.0.1:7", "127.0.0.1:7", "http://[::1]:7", "http://localhost:7/"]
    )
    def test_is_its_socket(self, data: Path, written: str) -> None:
        environ = {"HOME": str(data)}
        assert resolve(written, None, environ).name == f"unix:{data}/grpc.sock"
        named = {**environ, "MEMORY_ENDPOINT": written}
        assert [each.name for each in discover(named)] == [f"unix:{data}/grpc.sock"]

    @pytest.mark.parametrize(
        "written",
        ["http://127.0.0.1:8", "http://192.168.0.1:7", "https://localhost:7", "unix:/other.sock"],
    )
    def test_any_other_address_is_taken_as_written(self, data: Path, written: str) -> None:
        assert resolve(written, None, {"HOME": str(data)}).name == written

    def test_with_a_key_it_is_taken_as_written(self, data: Path) -> None:
        environ = {"HOME": str(data)}
        assert resolve("localhost:7", "am_key", environ).name == "localhost:7"

    def test_a_socket_that_a_killed_daemon_has_left_is_not_taken(self, data: Path) -> None:
        left = data / "left.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(left))
        environ = {"HOME": str(data)}
        record_path(environ).write_text(json.dumps({"grpc_port": 7, "grpc_socket": str(left)}))
        assert resolve("localhost:7", None, environ).name == "localhost:7"

    @pytest.mark.parametrize(
        "record", ["", "[1]", "{}", '{"grpc_port": 7}', '{"grpc_port": 7, "grpc_socket": "x"}']
    )
    def test_a_damaged_record_says_nothing(self, data: Path, record: str) -> None:
        environ = {"HOME": str(data)}
        record_path(environ).write_text(record)
        assert resolve("localhost:7", None, environ).name == "localhost:7"
        record_path(environ).unlink()
        assert resolve("localhost:7", None, environ).name == "localhost:7"


@pytest.mark.parametrize(
    ("given", "environ", "chosen"),
    [
        (None, {}, None),
        (None, {"MEMORY_KEY": ""}, None),
        (None, {"MEMORY_KEY": "am_there"}, "am_there"),
        ("am_here", {"MEMORY_KEY": "am_there"}, "am_here"),
        ("", {"MEMORY_KEY": "am_there"}, ""),
    ],
)
def test_a_key_is_given_or_in_the_environment(
    given: str | None, environ: dict[str, str], chosen: str | None
) -> None:
    assert choose_key(given, environ) == chosen
