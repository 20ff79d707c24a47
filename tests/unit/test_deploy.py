"""The files in deploy/: they parse, name settings and commands that exist, and hold no password."""

import configparser
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_memory import config
from agent_memory.interfaces.cli.programs import PROGRAMS

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "agent-memory-team.service"
SETTINGS = DEPLOY / "team.toml"
HARDENED = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "UMask": "0077",
    "StateDirectory": "agent-memory",
    "StateDirectoryMode": "0700",
    "CapabilityBoundingSet": "",
}
VARIABLE = re.compile(r"MEMORY_([A-Z_]+)")


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def read_unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    parser.read(UNIT)
    return parser


def check_command(words: list[str]) -> None:
    """Check that a command of `memory-daemon` exists and takes the settings of this folder."""
    assert words == ["serve-team", "--config", f"/etc/agent-memory/{SETTINGS.name}"]
    assert PROGRAMS["memory-daemon"].get_command(None, words[0]) is not None  # type: ignore[attr-defined]


def test_the_settings_are_known_and_keep_the_memory_on_a_server() -> None:
    loaded = config.load({}, file=SETTINGS)
    assert loaded.ignored == ()
    written = tomllib.loads(SETTINGS.read_text())
    names = {f"{section}.{name}" for section, values in written.items() for name in values}
    assert names == set(loaded.sources)
    assert loaded.settings.storage.url.startswith("postgresql://")
    assert ":" not in loaded.settings.storage.url.removeprefix("postgresql://")  # no password


@pytest.mark.parametrize("path", sorted(DEPLOY.iterdir()), ids=lambda path: path.name)
def test_variables_are_settings_and_no_file_has_a_password(path: Path) -> None:
    text = path.read_text()
    for variable in VARIABLE.findall(text):
        name = variable.lower().replace("__", ".")
        assert config.find_key(name).name == name
    code = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    assert not re.search(r"PASSWORD\s*[=:]", code, re.IGNORECASE)


class TestCompose:
    def test_it_starts_the_daemon_when_the_database_is_healthy(self, compose: Any) -> None:
        database, daemon = compose["services"]["db"], compose["services"]["daemon"]
        assert int(database["image"].removeprefix("postgres:")) >= 15
        assert daemon["depends_on"]["db"]["condition"] == "service_healthy"
        assert database["healthcheck"]["test"][1] == "pg_isready"
        assert daemon["healthcheck"]["test"] == ["CMD", "memory-daemon", "status"]
        for service in (database, daemon):
            assert service["env_file"] == "team.env"
            assert "password" not in str(service.get("environment")).lower()
            for volume in service["volumes"]:
                name = volume.partition(":")[0]
                assert name in compose["volumes"] or (DEPLOY / name).exists()

    def test_the_daemon_has_few_rights_and_is_published_on_loopback_alone(
        self, compose: Any
    ) -> None:
        daemon = compose["services"]["daemon"]
        assert (daemon["read_only"], daemon["cap_drop"]) == (True, ["ALL"])
        assert daemon["security_opt"] == ["no-new-privileges:true"]
        port = config.load({}, file=SETTINGS).settings.http.port
        assert daemon["ports"] == [f"127.0.0.1:{port}:{port}"]
        assert set(daemon["secrets"]) == set(compose["secrets"])
        assert "ports" not in compose["services"]["db"]

    def test_its_image_runs_the_command_as_a_user(self, compose: Any) -> None:
        build = compose["services"]["daemon"]["build"]
        lines = (DEPLOY / build["context"] / build["dockerfile"]).read_text().splitlines()
        assert 'ENTRYPOINT ["memory-daemon"]' in lines
        (command,) = (line for line in lines if line.startswith("CMD "))
        check_command(yaml.safe_load(command.removeprefix("CMD ")))
        assert lines.index("USER agent-memory") < lines.index(command)

    def test_what_it_reads_stays_out_of_the_repository_and_the_image(self, compose: Any) -> None:
        ignored = (DEPLOY.parent / ".gitignore").read_text().splitlines()
        left_out = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        assert {"deploy/team.env", "deploy/tls/"} <= set(ignored)
        assert {"deploy/team.env", "deploy/tls"} <= set(left_out)
        for secret in compose["secrets"].values():
            assert secret["file"].startswith("tls/")


class TestUnit:
    def test_it_is_hardened(self) -> None:
        service = read_unit()["Service"]
        assert {name: service[name] for name in HARDENED} == HARDENED
        assert service["User"] == "agent-memory"
        program, *words = service["ExecStart"].split()
        assert program.endswith("/bin/memory-daemon")
        check_command(words)

    @pytest.mark.parametrize("path", [UNIT, DEPLOY / "Dockerfile"], ids=lambda path: path.name)
    def test_the_home_of_its_user_is_its_folder(self, path: Path) -> None:
        """Only the password database says where the daemon keeps its files."""
        text = path.read_text()
        assert re.search(r"useradd --system .*--home-dir /var/lib/agent-memory ", text)
        assert not re.search(r"XDG_|\bHOME=", text)

    def test_variables_count_for_the_settings_that_it_gives(self) -> None:
        text = UNIT.read_text() + (DEPLOY / "compose.yaml").read_text()
        names = {name.lower().replace("__", ".") for name in VARIABLE.findall(text)}
        assert names == {"http.tls_cert", "http.tls_key"}
        assert all(config.find_key(name).variable for name in names)

    def test_systemd_accepts_it(self, tmp_path: Path) -> None:
        analyze = shutil.which("systemd-analyze")
        if analyze is None:
            pytest.skip("no systemd-analyze here")
        unit = tmp_path / UNIT.name
        # It also looks for the program.
        unit.write_text(
            UNIT.read_text().replace("/opt/agent-memory/bin/memory-daemon", sys.executable)
        )
        done = subprocess.run(
            [analyze, "verify", str(unit)], capture_output=True, text=True, check=False
        )
        complaints = [line for line in done.stderr.splitlines() if UNIT.name in line]
        assert (done.returncode, complaints) == (0, [])
