"""Secrets: which are found, how they are redacted, and what only looks like one.

Every secret is built at run time, so that no scanner finds one in this repository.
"""

import base64
import random
import string

import pytest

from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.features.secrets.model import secrets
from agent_memory.features.secrets.model.secrets import Finding, Incident, SecretsMode
from agent_memory.kernel.errors import ConfigError, ContentBlocked

ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + "234567"
HEX = "0123456789abcdef"
URLSAFE = ALNUM + "-_"

PEM = "-" * 5


@pytest.fixture(scope="module")
def cleaner() -> Re2Filter:
    return Re2Filter(mode="redact")


def generate(alphabet: str, size: int, *, seed: int = 1) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=size))


def pem(label: str, *, lines: int = 3) -> str:
    body = "\n".join(generate(ALNUM + "+/", 64, seed=n) for n in range(lines))
    return f"{PEM}BEGIN {label}{PEM}\n{body}\n{PEM}END {label}{PEM}"


TOKENS = {
    "aws-access-key": "AKIA" + generate(UPPER, 16),
    "gcp-api-key": "AIza" + generate(URLSAFE, 35),
    "gcp-client-secret": "GOCSPX-" + generate(URLSAFE, 28),
    "azure-client-secret": generate(ALNUM, 3) + "8Q~" + generate(ALNUM, 34),
    "github-token": "ghp_" + generate(ALNUM, 36),
    "gitlab-token": "glpat-" + generate(URLSAFE, 20),
    "slack-token": "xoxb-" + generate("0123456789", 12) + "-" + generate(ALNUM, 24),
    "slack-webhook": "https://hooks.slack.com/services/" + generate(ALNUM, 44),
    "stripe-key": "sk_live_" + generate(ALNUM, 24),
    "openai-key": "sk-proj-" + generate(URLSAFE, 48),
    "anthropic-key": "sk-ant-api03-" + generate(URLSAFE, 93),
    "huggingface-token": "hf_" + generate(string.ascii_letters, 34),
    "npm-token": "npm_" + generate(ALNUM, 36),
    "pypi-token": "pypi-" + "AgEIcHlwaS5vcmc" + generate(URLSAFE, 70),
    "twilio-key": "SK" + generate(HEX, 32),
    "sendgrid-key": "SG." + generate(URLSAFE, 22) + "." + generate(URLSAFE, 43),
    "mailgun-key": "key-" + generate(HEX, 32),
    "discord-token": "M"
    + generate(ALNUM, 25)
    + "."
    + generate(ALNUM, 6)
    + "."
    + generate(ALNUM, 38),
    "telegram-token": "123456789:A" + generate(URLSAFE[:-2], 34),
    "digitalocean-token": "dop_v1_" + generate(HEX, 64),
    "heroku-key": "HRKU-AA" + generate(ALNUM, 58),
    "shopify-token": "shpat_" + generate(HEX, 32),
    "square-token": "sq0atp-" + generate(ALNUM, 22),
    "atlassian-token": "ATATT3" + generate(ALNUM, 186),
    "bitbucket-password": "ATBB" + generate(ALNUM, 32),
    "linear-key": "lin_api_" + generate(ALNUM, 40),
    "notion-token": "ntn_" + generate("123456789", 11) + generate(ALNUM, 35),
    "vault-token": "hvs." + generate(ALNUM, 90),
    "terraform-token": generate(ALNUM, 14) + ".atlasv1." + generate(ALNUM, 67),
    "doppler-token": "dp.pt." + generate(ALNUM, 43),
    "age-secret-key": "AGE-SECRET-KEY-1" + generate(UPPER, 58),
    "sentry-token": "sntryu_" + generate(HEX, 64),
    "grafana-token": "glsa_" + generate(ALNUM, 32) + "_" + generate(HEX, 8),
    "newrelic-key": "NRAK-" + generate(UPPER, 27),
    "databricks-token": "dapi" + generate(HEX, 32),
    "facebook-token": "EAAC" + generate(ALNUM, 120),
    "artifactory-key": "AKCp" + generate(ALNUM, 69),
    "postman-key": "PMAK-" + generate(HEX, 24) + "-" + generate(HEX, 34),
    "agent-memory-key": "am_" + generate(ALNUM, 43),
    "jwt": "eyJ" + generate(ALNUM, 30) + ".eyJ" + generate(ALNUM, 60) + "." + generate(URLSAFE, 43),
}


@pytest.mark.parametrize(("kind", "token"), TOKENS.items(), ids=TOKENS)
@pytest.mark.parametrize("around", ["{}", "use {} here", "'{}',", "x={}&y=1", "a\\n{}\\n", "({})."])
def test_a_providers_token_is_redacted_wherever_it_stands(
    cleaner: Re2Filter, kind: str, token: str, around: str
) -> None:
    secret = token.rpartition("/")[2] if "://" in token else token
    cleaned = cleaner.clean(around.format(token))
    assert secret not in cleaned
    assert f"[REDACTED:{kind}]" in cleaned


WORD = generate(ALNUM, 14) + "7x"
TOKEN = generate(LOWER, 20) + "1k9"


@pytest.mark.parametrize(
    "text",
    [
        f"DB_PASSWORD={WORD}",
        f"export DB_PASSWORD={WORD}&;,x",
        f"password: {WORD}",
        f'"password": "{WORD}"',
        f'{{\\"password\\": \\"{WORD}\\"}}',
        f"user=a;Password={WORD};Encrypt=yes",
        f"jdbc:mysql://host/db?user=a&password={WORD}&x=1",
        f"<password>{WORD}</password>",
        f'<add key="ClearTextPassword" value="{WORD}" />',
        f"my password is {WORD}!",
        f"login --password {WORD} --host x",
        f"mysql -u root -p{WORD} db",
        f"sshpass -p '{WORD}' ssh host",
        f"machine host login me password {WORD}",
        f"curl -u me:{WORD} https://host/",
        f"curl -X POST \\\n  --user 'me:{WORD}' https://host/",
        f"postgres://me:{WORD}@host:5432/db",
        f"amqp://me:{WORD}@host",
        f"redis://:{WORD}@host:6379/0",
        f"passwd = '''{WORD}'''",
        f"dbPass := `{WORD}`",
        f"пароль: password=«{WORD}»",
    ],
)
def test_a_password_is_recognized_by_its_name(cleaner: Re2Filter, text: str) -> None:
    cleaned = cleaner.clean(text)
    assert WORD not in cleaned
    assert "[REDACTED:" in cleaned


@pytest.mark.parametrize(
    "text",
    [
        f"API_KEY={TOKEN}",
        f"api_key = '{TOKEN}'",
        f'const apiKey: string = "{TOKEN}";',
        f'var clientSecret string = "{TOKEN}"',
        f'{{"access_token": "{TOKEN}", "token_type": "bearer"}}',
        f'System.setProperty("SERVICE_TOKEN", "{TOKEN}")',
        f'token => "{TOKEN}"',
        f"auth_token: |\n  {TOKEN}",
        f"Authorization: Bearer {TOKEN}",
        f'-H "X-Api-Key: {TOKEN}"',
        f"//packages.example/:_authToken={TOKEN}",
        f"https://host/path?access_token={TOKEN}&page=2",
        f'"auth": "{TOKEN}"',
        f"DATADOG: {generate(HEX, 40)}",
    ],
)
def test_a_token_is_recognized_by_its_name(cleaner: Re2Filter, text: str) -> None:
    assert cleaner.clean(text) != text
    assert TOKEN not in cleaner.clean(text)


@pytest.mark.parametrize(
    "text",
    [
        "password: ${DB_PASSWORD}",
        "token=$TOKEN",
        "api_key = <your key>",
        "API_KEY=YOUR_API_KEY_1234567890",
        "secret: xxxxxxxxxxxxxxxx",
        'password = "changeme"',
        "token = process.env.TOKEN_V2",
        'api_key=os.environ["API_KEY_2"]',
        "password: str = Field(min_length=8)",
        "password = getpass.getpass()",
        "token = self._lexer.next_token()",
        'password: "Passwort"',
        "The password is case-sensitive. The token is expired.",
        "max_tokens=4096, total_tokens: 1234567",
        "token_expiry = 2024-05-06T07:08:09Z",
        "credentialsId: '" + "0" * 7 + "1-dc2f-4734-8221-5b31b5169bac'",
        "AKIA" + "IOSFODNN7EXAMPLE",
        "commit " + generate(HEX, 40),
        "sha256:" + generate(HEX, 64),
        "cache_key: " + generate(HEX, 40),
        "postgres://${USER}:${PASSWORD}@localhost/db",
        "redis://localhost:6379/0",
        "#include <pwd.h>\n#include <grp.h>",
        f'if "{PEM}BEGIN RSA ' + f'PRIVATE KEY{PEM}" in text:',
        pem("PUBLIC KEY"),
        pem("CERTIFICATE"),
        "call 555-123-4567 or 2024-11-16",
        "docker run -u 1000:1000 image",
        "password must be at least 8 characters",
        "ghp_" + "x" * 36,
        "PWD=/home/me/project1",
        base64.b64encode(b"a sentence of ordinary prose, as one may encode it").decode(),
    ],
)
def test_look_alikes_stay(cleaner: Re2Filter, text: str) -> None:
    assert cleaner.clean(text) == text


class TestPrivateKeys:
    LABELS = ("PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK")

    @pytest.mark.parametrize("label", LABELS)
    def test_they_block_the_whole_text(self, cleaner: Re2Filter, label: str) -> None:
        with pytest.raises(ContentBlocked, match="private-key"):
            cleaner.clean(f"before\n{pem(label)}\nafter")

    def test_also_as_a_string_of_json_and_where_the_end_is_cut_off(
        self, cleaner: Re2Filter
    ) -> None:
        block = pem("PRIVATE KEY", lines=20)
        for text in (block.replace("\n", "\\n"), block[:400], block.replace("\n", "\r\n")):
            with pytest.raises(ContentBlocked):
                cleaner.clean(f'"private_key": "{text}"')

    def test_also_as_base64(self, cleaner: Re2Filter) -> None:
        with pytest.raises(ContentBlocked):
            cleaner.clean("tls.key: " + base64.b64encode(pem("RSA PRIVATE KEY").encode()).decode())
        public = "ca.crt: " + base64.b64encode(pem("CERTIFICATE").encode()).decode()
        assert cleaner.clean(public) == public

    def test_a_block_is_found_as_a_whole(self, cleaner: Re2Filter) -> None:
        block = pem("EC PRIVATE KEY")
        assert cleaner.find(f"a {block} b") == [
            Finding(kind=secrets.PRIVATE_KEY, start=2, end=2 + len(block))
        ]


class TestAtAGlance:
    def test_ordinary_texts_pass_together(self, cleaner: Re2Filter) -> None:
        assert cleaner.is_clean([])
        assert cleaner.is_clean(
            ["def add(a, b):\n    return a + b", "project=/srv/shop", "", "é🔑"]
        )

    @pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
    @pytest.mark.parametrize(
        "around", [("{}",), ("word", "{}", "word"), ("", "{}"), ("{}", ""), ("4", "{}", "4")]
    )
    def test_a_token_among_others_does_not(
        self, cleaner: Re2Filter, token: str, around: tuple[str, ...]
    ) -> None:
        assert not cleaner.is_clean([text.format(token) for text in around])

    @pytest.mark.parametrize(
        "secret",
        [
            f"password={WORD}",
            "123-45-6789",
            "4111111111111111",
            f"a://b:{WORD}@c",
            pem("PRIVATE KEY"),
        ],
    )
    def test_nor_does_any_other_secret(self, cleaner: Re2Filter, secret: str) -> None:
        assert not cleaner.is_clean(["word", secret, "word"])

    def test_a_text_with_a_marker_is_searched_piece_by_piece(self, cleaner: Re2Filter) -> None:
        assert not cleaner.is_clean(["x", "word[REDACTED:token]word"])

    def test_much_text_is_left_to_a_closer_look(self, cleaner: Re2Filter) -> None:
        assert cleaner.is_clean(["word " * 100])
        assert not cleaner.is_clean(["word " * 100_000])

    def test_a_filter_that_fails_blocks(self) -> None:
        class Broken(Re2Filter):
            def suspects(self, lines: str) -> bool:
                raise RuntimeError(len(lines))

        with pytest.raises(ContentBlocked, match="failed"):
            Broken(mode="warn").is_clean(["anything"])


class TestModes:
    TEXT = f"password: {WORD} and password: {WORD}a"

    @pytest.mark.parametrize(
        ("mode", "kind", "outcome"),
        [
            ("redact", "password", "redacted"),
            ("redact", secrets.PRIVATE_KEY, "blocked"),
            ("block", "password", "blocked"),
            ("warn", "password", "kept"),
            ("warn", secrets.PRIVATE_KEY, "kept"),
        ],
    )
    def test_the_outcome_of_a_finding_depends_on_the_mode(
        self, mode: SecretsMode, kind: str, outcome: str
    ) -> None:
        assert secrets.decide_outcome(kind, mode) == outcome

    def test_block_refuses_the_text_and_does_not_tell_the_secret(self) -> None:
        with pytest.raises(ContentBlocked) as caught:
            Re2Filter(mode="block").clean(self.TEXT)
        assert WORD not in str(caught.value)

    def test_warn_keeps_the_text_and_reports(self) -> None:
        told: list[Incident] = []
        cleaner = Re2Filter(mode="warn", report=told.append)
        assert cleaner.clean(self.TEXT, where="01J/text") == self.TEXT
        assert [incident.outcome for incident in told] == ["kept", "kept"]

    def test_each_finding_is_reported_without_the_secret(self) -> None:
        told: list[Incident] = []
        Re2Filter(mode="redact", report=told.append).clean(self.TEXT, where="01J/text")
        length = len(WORD)
        assert told == [
            Incident(kind="password", length=size, where="01J/text", outcome="redacted")
            for size in (length, length + 1)
        ]
        assert WORD not in repr(told)

    def test_a_filter_that_fails_blocks(self) -> None:
        class Broken(Re2Filter):
            def find(self, text: str) -> list[Finding]:
                raise RuntimeError(len(text))

        with pytest.raises(ContentBlocked, match="failed"):
            Broken(mode="warn").clean("anything")


class TestAllowed:
    def test_only_allowed_values_stay(self) -> None:
        cleaner = Re2Filter(mode="redact", allowed=[WORD])
        assert cleaner.clean(f"password: {WORD}") == f"password: {WORD}"
        assert cleaner.clean(f"password: {WORD}9") == "password: [REDACTED:password]"

    def test_an_expression_is_matched_with_all_of_the_secret(self) -> None:
        cleaner = Re2Filter(mode="redact", allowed=["/ghp_[A-Z]+/"])
        spared, found = "ghp_" + generate(UPPER[:26], 36), "ghp_" + generate(ALNUM, 36)
        assert cleaner.clean(f"{spared} {found}") == f"{spared} [REDACTED:github-token]"

    def test_a_wrong_expression_is_an_error_of_the_settings(self) -> None:
        with pytest.raises(ConfigError, match=r"security\.allow"):
            Re2Filter(mode="redact", allowed=["/(/"])


class TestNumbers:
    @pytest.mark.parametrize(
        ("digits", "valid"),
        [
            ("4111" + "1" * 12, True),
            ("4111" + "1" * 11 + "2", False),
            ("5555" * 3 + "4444", True),
            ("3782" + "822463" + "10005", True),
            ("1111" * 4, False),
            ("0" * 16, False),
            ("9999999999999995", False),
        ],
    )
    def test_a_card_has_an_issuer_and_a_check_digit(self, digits: str, valid: bool) -> None:
        assert secrets.is_card_number(digits) is valid

    @pytest.mark.parametrize("form", ["{0}{1}{2}{3}", "{0} {1} {2} {3}", "{0}-{1}-{2}-{3}"])
    def test_cards_are_found_as_people_write_them(self, cleaner: Re2Filter, form: str) -> None:
        number = form.format("4111", "1111", "1111", "1111")
        assert cleaner.clean(f"card {number}, 12/27") == "card [REDACTED:card-number], 12/27"

    @pytest.mark.parametrize(
        "text", ["id 1700000000000000", "v 4.1111.1111", "4111 11111 111 1111"]
    )
    def test_other_numbers_are_no_cards(self, cleaner: Re2Filter, text: str) -> None:
        assert cleaner.clean(text) == text

    @pytest.mark.parametrize("digits", ["123456789", "899019999"])
    def test_an_ssn_has_an_area_a_group_and_a_number(self, digits: str) -> None:
        assert secrets.is_ssn(digits)

    @pytest.mark.parametrize(
        "digits", ["000456789", "666456789", "900456789", "123006789", "123450000"]
    )
    def test_numbers_that_were_never_issued_stay(self, digits: str) -> None:
        assert not secrets.is_ssn(digits)

    def test_ssns_need_dashes_or_their_name(self, cleaner: Re2Filter) -> None:
        assert cleaner.clean("it is 123-45-6789.") == "it is [REDACTED:us-ssn]."
        assert cleaner.clean("SSN: 123456789") == "SSN: [REDACTED:us-ssn]"
        assert cleaner.clean("order 123456789") == "order 123456789"
        assert cleaner.clean("id 123-45-6789-12") == "id 123-45-6789-12"


def test_findings_count_characters_not_bytes(cleaner: Re2Filter) -> None:
    token = TOKENS["github-token"]
    text = f"ключ — {token} 🔑 {token}"
    found = cleaner.find(text)
    assert [text[f.start : f.end] for f in found] == [token, token]


def test_kubernetes_secrets_lose_their_data(cleaner: Re2Filter) -> None:
    value = base64.b64encode(WORD.encode()).decode()
    text = (
        f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  extra: {value}\n---\na: b"
    )
    assert cleaner.clean(text) == text.replace(value, "[REDACTED:kubernetes-secret]")


def test_a_value_beyond_the_limit_is_redacted_to_its_end(cleaner: Re2Filter) -> None:
    value = generate(ALNUM, 5000)
    assert cleaner.clean(f'token = "{value}"; x') == 'token = "[REDACTED:token]"; x'


def test_tokens_glued_together_are_blocked_rather_than_peeled_off_forever(
    cleaner: Re2Filter,
) -> None:
    token = "dapi" + generate(HEX, 32)
    assert token not in cleaner.clean(token * 3)
    with pytest.raises(ContentBlocked, match="too many nested secrets"):
        cleaner.clean(token * 50)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("my password is Tr0ub4dor&3xyz", "my password is [REDACTED:password]"),
        ("pw: Tr0ub4dor&3xyz.", "pw: [REDACTED:password]."),
        ("password=Tr0ub4dor9&user=bob", "password=[REDACTED:password]&user=bob"),
        ("password: Tr0ub4dor9, user: bob", "password: [REDACTED:password], user: bob"),
    ],
)
def test_a_password_with_a_mark_in_it_is_gone_whole(text: str, cleaned: str) -> None:
    assert Re2Filter(mode="redact").clean(text) == cleaned


def test_a_private_key_that_was_cut_off_is_refused() -> None:
    head, tail = (f"-----{word} RSA {'PRIVATE'} KEY-----" for word in ("BEGIN", "END"))
    with pytest.raises(ContentBlocked):
        Re2Filter(mode="redact").clean(f"{head}\nMIIEpAIBAAKCAQEA7\n{tail}")
    assert Re2Filter(mode="redact").clean(f"{head}\n...\n{tail}") == f"{head}\n...\n{tail}"


class TestTokensWithoutADigit:
    """Formats that do not guarantee a digit."""

    @pytest.mark.parametrize("around", ["{}", "AWS_ACCESS_KEY_ID={}", "see {} there"])
    @pytest.mark.parametrize("prefix", ["AKIA", "ASIA", "ABIA", "ACCA"])
    def test_the_id_of_an_aws_key_is_known_by_prefix_and_length(
        self, cleaner: Re2Filter, prefix: str, around: str
    ) -> None:
        text = around.format(prefix + "YFLOUMGEXT" + "METFOS")
        assert cleaner.clean(text) == around.format("[REDACTED:aws-access-key]")

    @pytest.mark.parametrize(
        "prefix",
        [
            "glpat-",
            "vcp_",
            "rnd_",
            "hvs.",
            "ATBB",
            "whsec_",
            "sk-proj-",
            "rzp_live_",
        ],
    )
    def test_other_tokens_by_letters_in_both_cases(self, cleaner: Re2Filter, prefix: str) -> None:
        tokens = [prefix + generate(string.ascii_letters, 28, seed=seed) for seed in range(20)]
        left = [token for token in tokens if token in cleaner.clean(f"see {token} there")]
        assert len(left) <= 1  # random letters that happen to read as words stay

    @pytest.mark.parametrize(
        "text",
        [
            "AKIAIOSFODNN7" + "EXAMPLE",
            "glyph-orientation-vertical-lr-ttb-rl",
            "glass-btn-xs-hdr-lft-mdl-rgt-ftr",
            "flask-admin-templates-and-static-files",
        ],
    )
    def test_names_and_examples_stay(self, cleaner: Re2Filter, text: str) -> None:
        assert cleaner.clean(text) == text


@pytest.mark.parametrize("kind", ["github-token", "npm-token", "pypi-token", "linear-key"])
def test_a_token_is_known_also_where_a_word_runs_into_it(cleaner: Re2Filter, kind: str) -> None:
    assert cleaner.clean(f"Tool{TOKENS[kind]} x") == f"Tool[REDACTED:{kind}] x"


@pytest.mark.parametrize("name", ["Passwort: ", "password=", "my pw: "])
def test_a_password_of_letters_is_known_by_its_jumbled_case(cleaner: Re2Filter, name: str) -> None:
    assert cleaner.clean(f"{name}hTMWqszcjwLItt") == f"{name}[REDACTED:password]"


@pytest.mark.parametrize(
    "value",
    ["newPasswordHash", "txtPwdCtrl", "getHTTPSClientCtx", "XMLHttpRequest", "Zugangsberechtigung"],
)
def test_a_name_after_password_stays(cleaner: Re2Filter, value: str) -> None:
    assert cleaner.clean(f"password: {value}") == f"password: {value}"
