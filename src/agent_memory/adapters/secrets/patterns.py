"""What secrets look like: one rule per kind, in the syntax of RE2, over bytes.

A rule has a `lead`, cheap to look for together with all others, and a `pattern` that runs only
where the lead occurs. Group 1 of the pattern is the secret; `check` judges it. All shapes are facts
that the providers document. Most bodies are open-ended, so that a longer variant leaves no tail
behind.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agent_memory.domain import secrets

Check = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    kind: str
    lead: str
    pattern: str
    check: Check


# Where a token may begin: also after an escaped line end, as in JSON within JSON.
START = r"(?:\b|\\[nrt])"
HEX = "[0-9a-f]"
HEX_ANY = "[0-9a-fA-F]"
ALNUM = "[A-Za-z0-9]"
URLSAFE = r"[A-Za-z0-9_\-]"
SOME = r"[A-Za-z0-9_+/.=%\-]{10}"
B64 = "[A-Za-z0-9+/]"
UUID = f"{HEX_ANY}{{8}}-{HEX_ANY}{{4}}-{HEX_ANY}{{4}}-{HEX_ANY}{{4}}-{HEX_ANY}{{12}}"


def genuine(value: str) -> bool:
    return not secrets.is_dummy(value)


def scrambled(value: str) -> bool:
    """For prefixes that a name may have as well."""
    return genuine(value) and not secrets.is_readable(value)


def numbered(value: str) -> bool:
    return genuine(value) and (
        any(c.isdigit() for c in value[4:]) or not secrets.is_readable(value)
    )


def mixed(value: str) -> bool:
    """For prefixes that words may have as well: letters and digits."""
    body = value[3:]
    return scrambled(value) and any(c.isdigit() for c in body) and any(c.isalpha() for c in body)


def anything(_: str) -> bool:
    return True


def _token(kind: str, lead: str, body: str, check: Check = genuine, *, then: str = SOME) -> Rule:
    """A token with a prefix. `then`: what must follow the prefix for the rule to be tried."""
    return Rule(
        kind=kind, lead=f"{START}{lead}{then}", pattern=f"{START}({lead}{body})", check=check
    )


PROVIDERS: tuple[Rule, ...] = (
    # clouds
    _token("aws-access-key", "(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])", r"[A-Z0-9]{16}\b", numbered),
    _token("aws-bedrock-key", "ABSK", f"{B64}{{100,}}={{0,2}}"),
    _token("aws-bedrock-key", "bedrock-api-key-", f"{B64}{{16,}}={{0,2}}"),
    _token("aws-mws-key", r"amzn\.mws\.", UUID),
    _token("gcp-api-key", "AIza", f"{URLSAFE}{{35,}}", scrambled),
    _token("gcp-client-secret", "GOCSPX-", f"{URLSAFE}{{24,}}"),
    _token("gcp-oauth-token", r"ya29\.", r"[A-Za-z0-9_.\-]{20,}"),
    _token("gcp-refresh-token", "1//0", f"{URLSAFE}{{30,}}", mixed),
    Rule(
        kind="azure-client-secret",
        lead="[0-9]Q~",
        pattern=r"(?:^|[^A-Za-z0-9_~.\-]|\\[nrt])([A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.\-]{31,})",
        check=genuine,
    ),
    Rule(
        kind="azure-shared-key",
        lead="(?i:account|shared ?access)_?(?i:key)",
        pattern=rf"(?i:accountkey|sharedaccesskey)\s?=\s?({B64}{{40,}}={{0,2}})",
        check=genuine,
    ),
    Rule(
        kind="azure-sas-signature",
        lead="[?&;]sig=",
        pattern="[?&;]sig=([A-Za-z0-9%+/]{40,}={0,2})",
        check=genuine,
    ),
    _token("alibaba-access-key", "LTAI", f"{ALNUM}{{17,}}", mixed),
    _token("digitalocean-token", "do[opr]_v1_", f"{HEX}{{64,}}"),
    _token("heroku-key", "HRKU-", f"{URLSAFE}{{36,}}"),
    _token("fly-token", "(?:fo1_|fm1[ar]_|fm2_)", r"[A-Za-z0-9_\-+/=,]{20,}", scrambled),
    _token("scalingo-token", "tk-us-", f"{URLSAFE}{{40,}}"),
    _token("yandex-key", "AQVN", f"{URLSAFE}{{35,}}", scrambled),
    _token("yandex-token", r"t1\.[A-Z0-9a-z_\-]{1,40}\.", f"{URLSAFE}{{60,}}"),
    _token("yandex-key", "YC[A-Z]", f"{URLSAFE}{{37,}}", mixed),
    _token("cloudflare-origin-key", r"v1\.0-", f"{HEX}{{24}}-{HEX}{{100,}}"),
    _token("supabase-token", "sb[ps]_", f"(?:{HEX}{{40,}}|(?:secret_){URLSAFE}{{20,}})"),
    _token("vercel-token", "vc[pkiar]_", f"{ALNUM}{{24,}}", mixed),
    _token("netlify-token", "nf[pcoub]_", f"{ALNUM}{{36,}}"),
    _token("planetscale-token", "pscale_(?:tkn|oauth|pw)_", r"[A-Za-z0-9_.=\-]{32,}"),
    _token("databricks-token", "dapi", f"{HEX}{{32}}(?:-[0-9])?"),
    _token("openshift-token", "sha256~", f"{URLSAFE}{{43,}}"),
    # code and packages
    _token("github-token", "gh[pousr]_", f"{ALNUM}{{36,}}"),
    _token("github-token", "github_pat_", "[A-Za-z0-9_]{36,}"),
    _token("gitlab-token", "gl(?:[a-z]{2,6})-", r"[A-Za-z0-9_\-]{20,}(?:\.[a-z0-9.]{9,})?", mixed),
    _token("gitlab-runner-token", "GR1348941", f"{URLSAFE}{{20,}}"),
    Rule(
        kind="gitlab-session",
        lead="_gitlab_session=",
        pattern="_gitlab_session=([0-9a-z]{32,})",
        check=genuine,
    ),
    _token("bitbucket-password", "ATBB", f"{ALNUM}{{24,}}", mixed),
    _token("atlassian-token", "AT(?:ATT|CTT)3", r"[A-Za-z0-9_=\-]{50,}"),
    _token("npm-token", "npm_", f"{ALNUM}{{36,}}", scrambled),
    _token("pypi-token", "pypi-", "Ag[A-Za-z0-9_\\-]{50,}"),
    _token("rubygems-key", "rubygems_", f"{HEX}{{48,}}"),
    _token("clojars-token", "CLOJARS_", "[a-z0-9]{60,}"),
    _token("docker-token", "dckr_[a-z]{2,4}_", f"{URLSAFE}{{24,}}"),
    _token("artifactory-key", "AKCp", f"{ALNUM}{{60,}}"),
    _token("artifactory-token", "cmVmd", f"{ALNUM}{{59,}}", mixed),
    _token("sourcegraph-token", "sgp_", f"(?:{HEX_ANY}{{16}}_|local_)?{HEX_ANY}{{40,}}"),
    _token("postman-key", "PMAK-", f"{HEX_ANY}{{24}}-{HEX_ANY}{{30,}}"),
    _token("buildkite-token", "bk(?:ua|pt|aj)_", f"{HEX}{{40,}}"),
    _token("circleci-token", "CCI(?:PAT|PRJ)_", f"{ALNUM}{{16,}}_{HEX}{{40,}}"),
    _token("sonar-token", "sq[uap]_", f"{ALNUM}{{40,}}"),
    _token("octopus-key", "API-", r"[A-Z0-9]{25,26}\b", mixed),
    _token("snyk-token", "snyk_[a-z]{2,4}", r"[A-Za-z0-9._\-]{24,}", mixed),
    _token("harness-key", r"[ps]at\.", rf"{URLSAFE}{{22}}\.{ALNUM}{{24}}\.{ALNUM}{{20,}}"),
    _token("readme-key", "rdme_", "[a-z0-9]{70,}"),
    _token("prefect-key", "pnu_", f"{ALNUM}{{36,}}"),
    # secrets managers and infrastructure
    _token("vault-token", r"hv[sbr]\.", f"{URLSAFE}{{24,}}", mixed),
    Rule(
        kind="vault-token",
        lead=r"\b[sb]\.[A-Za-z0-9]{24}",
        pattern=rf"(?:^|[^A-Za-z0-9_.$)\]]|\\[nrt])([sb]\.{ALNUM}{{24}})\b",
        check=mixed,
    ),
    Rule(
        kind="terraform-token",
        lead=r"\.atlasv1\.",
        pattern=rf"({ALNUM}{{14}}\.atlasv1\.[A-Za-z0-9_=\-]{{60,}})",
        check=genuine,
    ),
    _token("doppler-token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.", r"[A-Za-z0-9_.\-]{40,}"),
    _token("pulumi-token", "pul-", f"{HEX}{{40}}\\b"),
    _token("age-secret-key", "AGE-SECRET-KEY-1", "[0-9A-Z]{58,}", anything),
    _token("onepassword-key", "A3-[A-Z0-9]{6}-", "[A-Z0-9]{6,11}-(?:[A-Z0-9]{5,6}-?){3,}"),
    _token("onepassword-token", "ops_eyJ", f"{B64}{{100,}}={{0,2}}"),
    _token("infracost-key", "ico-", f"{ALNUM}{{32}}\\b", mixed),
    _token("tailscale-key", "tskey-[a-z]{3,8}-", f"{URLSAFE}{{16,}}", scrambled),
    _token("defined-networking-token", "dnkey-", r"[A-Za-z0-9_=\-]{40,}"),
    _token("dynatrace-token", r"dt0[a-z][0-9]{2}\.", r"[A-Za-z0-9]{24}\.[A-Za-z0-9]{60,}"),
    _token("settlemint-token", "sm_[aps]at_", f"{ALNUM}{{16,}}"),
    # models
    _token("anthropic-key", r"sk-ant-[a-z]{2,8}[0-9]{2}-", f"{URLSAFE}{{20,}}", mixed),
    _token("openai-key", "sk-(?:proj|svcacct|admin|None)-", f"{URLSAFE}{{20,}}", mixed),
    _token("openrouter-key", "sk-or-v1-", f"{HEX}{{48,}}"),
    _token("openai-key", "sk-", f"{ALNUM}{{20,}}", numbered),
    _token("huggingface-token", "hf_", f"{ALNUM}{{30,}}", scrambled),
    _token("huggingface-token", "api_org_", f"{ALNUM}{{30,}}", scrambled),
    _token("perplexity-key", "pplx-", f"{ALNUM}{{40,}}"),
    _token("groq-key", "gsk_", f"{ALNUM}{{40,}}"),
    _token("xai-key", "xai-", f"{ALNUM}{{60,}}"),
    _token("replicate-token", "r8_", f"{ALNUM}{{36,}}", mixed),
    _token("langsmith-key", "lsv2_[a-z]{2}_", f"{HEX}{{32}}_{HEX}{{10}}"),
    _token("pinecone-key", "pcsk_", "[A-Za-z0-9_]{40,}"),
    # messages
    _token("slack-token", r"xox[a-z](?:\.xox[a-z])?-", r"[A-Za-z0-9\-]{14,}", mixed),
    _token("slack-token", "xapp-[0-9]-", r"[A-Za-z0-9\-]{20,}"),
    Rule(
        kind="slack-webhook",
        lead=r"hooks\.slack\.com/",
        pattern=r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{40,})",
        check=genuine,
    ),
    Rule(
        kind="teams-webhook",
        lead=r"webhook\.office\.com/",
        pattern=r"webhook\.office\.com/webhookb2/([A-Za-z0-9@/\-]{60,})",
        check=genuine,
    ),
    Rule(
        kind="discord-webhook",
        lead="/api/webhooks/",
        pattern=rf"/api/webhooks/[0-9]{{15,20}}/({URLSAFE}{{50,}})",
        check=genuine,
    ),
    Rule(
        kind="discord-token",
        lead=rf"[MNO]{URLSAFE}{{23,27}}\.{URLSAFE}{{6}}\.",
        pattern=rf"{START}([MNO]{URLSAFE}{{23,27}}\.{URLSAFE}{{6}}\.{URLSAFE}{{27,}})",
        check=mixed,
    ),
    Rule(
        kind="telegram-token",
        lead="[0-9]{5}:A",
        pattern=rf"(?:^|[^0-9A-Za-z]|bot|\\[nrt])([0-9]{{5,16}}:A{URLSAFE}{{34}})\b",
        check=mixed,
    ),
    _token("twilio-key", "SK", f"{HEX}{{32}}\\b"),
    _token("sendgrid-key", r"SG\.", r"[A-Za-z0-9_=.\-]{60,}", mixed),
    _token("sendinblue-key", "x(?:key|smtp)sib-", f"{HEX}{{64}}-{ALNUM}{{16,}}"),
    _token("mailgun-key", "(?:pub)?key-", f"{HEX}{{32}}\\b"),
    Rule(
        kind="mailgun-signing-key",
        lead=f"{HEX}{{4}}-{HEX}{{8}}-{HEX}{{8}}",
        pattern=rf"{START}({HEX}{{32}}-{HEX}{{8}}-{HEX}{{8}})\b",
        check=genuine,
    ),
    Rule(
        kind="mailchimp-key",
        lead=f"{HEX}{{4}}-us[0-9]",
        pattern=rf"{START}({HEX}{{32}}-us[0-9]{{1,2}})\b",
        check=genuine,
    ),
    _token("mapbox-token", r"[ps]k\.(?:eyJ)?", rf"[A-Za-z0-9]{{57,}}\.{URLSAFE}{{20,}}", mixed),
    # money and shops
    _token("stripe-key", "[sr]k_(?:live|test|prod)_", f"{ALNUM}{{10,}}", scrambled),
    _token("stripe-webhook-secret", "whsec_", f"{B64}{{24,}}={{0,2}}", mixed),
    _token("square-token", "sq0[a-z]{3}-", f"{URLSAFE}{{22,}}"),
    _token("square-token", "EAAA", f"{URLSAFE}{{60}}", mixed),
    _token("shopify-token", "shp[a-z]{2}_", f"{HEX_ANY}{{32,}}"),
    _token("easypost-key", "EZ[AT]K", f"{ALNUM}{{54,}}"),
    _token("flutterwave-key", "FLW(?:PUB|SEC)K(?:_TEST)?-", f"{HEX_ANY}{{12,}}(?:-X)?"),
    _token("duffel-token", "duffel_(?:test|live)_", r"[A-Za-z0-9_=\-]{40,}"),
    _token("shippo-token", "shippo_(?:live|test)_", f"{HEX}{{40,}}"),
    _token("plaid-token", "access-(?:sandbox|development|production)-", UUID),
    _token("lob-key", "(?:live|test)_(?:pub_)?", f"{HEX}{{31,35}}\\b", then=f"{HEX}{{10}}"),
    _token("gocardless-token", "live_", r"[A-Za-z0-9_=\-]{40}\b", mixed),
    # work
    _token("linear-key", "lin_(?:api|oauth)_", f"{ALNUM}{{32,}}"),
    _token("notion-token", "ntn_", f"[0-9]{{11}}{ALNUM}{{32,}}"),
    _token("notion-token", "secret_", f"{ALNUM}{{43}}\\b", mixed),
    _token("airtable-token", "pat", rf"{ALNUM}{{14}}\.{HEX}{{64}}", then=rf"{ALNUM}{{14}}\."),
    _token("figma-token", "fig[dour]_", f"{URLSAFE}{{36,}}"),
    _token("typeform-token", "tfp_", r"[A-Za-z0-9_.=\-]{40,}"),
    _token("frameio-token", "fio-u-", r"[A-Za-z0-9_=\-]{60,}"),
    _token("asana-token", "[12]/[0-9]{14,17}[:/]", f"(?:[0-9]{{14,17}}:)?{HEX}{{32}}"),
    _token("contentful-token", "CFPAT-", f"{URLSAFE}{{40,}}"),
    _token("adobe-secret", "p8e-", f"{HEX_ANY}{{32}}"),
    _token(
        "authress-key",
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.",
        r"[a-z0-9]{4,6}\.acc[_-][a-z0-9\-]{10,32}\.[A-Za-z0-9+/_=\-]{30,}",
    ),
    _token("intra42-secret", "s-s4t2(?:ud|af)-", f"{HEX}{{64}}"),
    Rule(
        kind="sidekiq-secret",
        lead=r"(?i:contribsys__com|contribsys\.com)",
        pattern=r"(?i:contribsys__com|contribsys\.com)[^\n]{0,8}?[ \"'`=:]"
        rf"({HEX}{{8}}:{HEX}{{8}})\b",
        check=anything,
    ),
    # watching
    _token("sentry-token", "sntry[su]_", r"[A-Za-z0-9+/=_\-]{40,}", mixed),
    _token("grafana-token", "gl(?:c|sa)_", r"[A-Za-z0-9+/=_]{32,}", mixed),
    _token("grafana-key", "eyJrIjoi", r"[A-Za-z0-9+/=]{40,}"),
    _token("newrelic-key", "NR(?:AK|II|JS|RA|AA|AL|SP)-", r"[A-Za-z0-9_\-]{19,}"),
    _token("launchdarkly-key", "(?:sdk|api|mob)-", f"{UUID}\\b"),
    _token("beamer-token", "b_", r"[A-Za-z0-9_=\-]{44}\b", mixed),
    # people
    _token("facebook-token", "EAA[A-Z]", f"{ALNUM}{{80,}}", mixed),
    Rule(
        kind="facebook-token",
        lead=r"[0-9]{15}(?:\||%7[cC])",
        pattern=rf"{START}([0-9]{{15,16}}(?:\||%7[cC]){URLSAFE}{{27}})\b",
        check=genuine,
    ),
    _token("twitter-bearer", "A{20,24}", "[A-Za-z0-9%]{70,}", mixed),
    _token("dropbox-token", r"sl\.(?:u\.)?", r"[A-Za-z0-9_\-]{120,}", mixed),
    _token("linkedin-secret", "WPL_AP[01]\\.", r"[A-Za-z0-9.=]{16,}"),
    _token("agent-memory-key", "am_", f"{URLSAFE}{{43}}\\b", mixed),
    Rule(
        kind="okta-token",
        lead=r"(?:\b|_)(?i:okta|ssws)",
        pattern=rf"(?:\b|_)(?i:okta|ssws)[^\n]{{0,40}}?[\s\"'`=:](00{URLSAFE}{{40}})\b",
        check=scrambled,
    ),
    _token(
        "jwt",
        r"ey[A-Za-z0-9_\-]{8,}\.ey",
        r"[A-Za-z0-9_/\-]{8,}(?:\.[A-Za-z0-9_/=\-]*)?",
        scrambled,
    ),
    _token("jwt", "ZXlK", r"[A-Za-z0-9+/_\-]{60,}={0,2}", mixed),
)

# Passwords within URLs: `user:password@host`, also without a user.
URL_PASSWORD = Rule(
    kind="url-password",
    lead=r"://[^\s/:@\"'`<>]*:[^\s/\"'`<>]",
    pattern=r"[A-Za-z][A-Za-z0-9+.\-]{1,30}://[^\s/:@\"'`<>]*:([^\s/\"'`<>][^\s\"'`<>/]*)@[A-Za-z0-9\[_$%{(*]",
    check=lambda value: not secrets.is_reference(value) and not set(value) <= set("*xX.-_"),
)


def _is_said(value: str) -> bool:
    return secrets.is_password(value, quoted=True)


# Passwords by their place in a command or file.
PLACED: tuple[Rule, ...] = (
    Rule(
        kind="password",
        lead=r"\blogin\s+\S+\s+password\s",  # .netrc
        pattern=r"\blogin\s+\S+\s+password\s+(\S+)",
        check=_is_said,
    ),
    Rule(
        kind="password",
        lead=r"\bsshpass\s+-p",
        pattern=r"\bsshpass\s+-p\s*[\"']?([^\s\"']+)",
        check=_is_said,
    ),
    Rule(
        kind="password",
        lead=r"\b(?:mysql|mysqldump|mysqladmin|mariadb)\s[^\n|;]{0,100}\s-p",
        pattern=r"\b(?:mysql|mysqldump|mysqladmin|mariadb)\s[^\n|;]{0,100}?\s-p[\"']?([^\s\"']+)",
        check=_is_said,
    ),
)

# What is assigned: only the name and the operator; the value is read and judged in Python.
HUMAN_WORDS = "pass(?:wor[dt]s?|wd|phrase|code|wrd)?|pwd|psw|pw|kennwort"
MACHINE_WORDS = (
    "secret|token|api[_.\\- ]?key|access[_.\\- ]?key|auth[_.\\- ]?key|account[_.\\- ]?key|"
    "encryption[_.\\- ]?key|signing[_.\\- ]?key|private[_.\\- ]?key|license[_.\\- ]?key|"
    "master[_.\\- ]?key|app[_.\\- ]?key|credential"
)
HINTING_WORDS = "key|auth|login|access|session|cookie|creds?"
PROVIDER_NAMES = (
    "adafruit|adobe|airtable|algolia|asana|bittrex|cloudflare|codecov|coinbase|confluent|contentful|"
    "datadog|discord|droneci|dropbox|facebook|fastly|finicity|finnhub|flickr|freshbooks|heroku|"
    "hubspot|intercom|jfrog|kraken|kucoin|launchdarkly|linkedin|looker|mailgun|mapbox|mattermost|"
    "meraki|netlify|nytimes|okta|plaid|rapidapi|sendbird|sentry|snyk|sonar|sourcegraph|squarespace|"
    "sumologic|travisci|twilio|twitch|twitter|zendesk"
)
REST_OF_NAME = r"[A-Za-z0-9_.\-]{0,24}"
CLOSING = r"(?:\\?[\"'`\]]){0,3}"
OPERATOR = r"(?:[ \t]{0,20}(?::{0,3}=>?|\?=|\.=|\|\|=?|:)|>)"
TYPE = r"(?:[ \t]*:?[ \t]+(?i:string|str|&str|&'static str|char\*?|\[\]byte|text|varchar))?"

ASSIGNED = rf"(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))({REST_OF_NAME}){CLOSING}{TYPE}{OPERATOR}"
SET_BY_CALL = (
    rf"(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))({REST_OF_NAME})"
    r"\\?[\"'`][ \t]{0,4},[ \t]{0,4}\\?[\"'`]"
)
SET_BY_FLAG = rf"--(?:[a-z0-9]+-){{0,4}}(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))()[ \t]{{1,4}}[^\s\-]"
SAID = rf"(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))() (?i:is|was)[ \t]{{0,2}}:?[ \t]"
UNQUOTED = r"[^\s\"'`,;&<>()\[\]{}|]*"
UNQUOTED_LINE = r"[^\s\"'`]*"
XML_VALUE = rf"(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))()[\"'][ \t]{{1,4}}(?i:value)="
HINTED = (
    rf"(?i:{HINTING_WORDS}|({PROVIDER_NAMES})){REST_OF_NAME}{CLOSING}{TYPE}{OPERATOR}"
    r"[ \t]{0,4}\\?[\"'`]{0,3}([A-Za-z0-9+/_=.:~\-]{16,})"
)
AUTHORIZATION = (
    r"(?i:authorization\\?[\"'`]?\]?[ \t]{0,4}[:=,][ \t]{0,4}\\?[\"'`]?"
    r"|\b(?:bearer|basic)[ \t]{1,4})"
    r"(?:(?i:basic|bearer|token|apikey|api-key|api-token|ssws|negotiate|digest)[ \t]{1,4})?"
    r"([A-Za-z0-9+/_=.:~@%\-]{8,})"
)
USER_OPTION = r"(?:[ \t]-u|--user)[ \t=]{0,4}([\"']?[^\s:\"'<]*[\"']?:[^\s]+)"

PEM_HEADER = r"-----BEGIN[A-Z0-9 ]{0,40} ?PRIVATE KEY(?: BLOCK)?-----"
PEM_BASE64 = "LS0tLS1CRUdJTiB[A-Za-z0-9+/]{40,}={0,2}"
PUTTY = r"(?i:Private-Lines): [0-9]{1,3}\s+([A-Za-z0-9+/=\r\n]{40,})"
KUBERNETES_KIND = r"(?i:\bkind[\"']?:[ \t]*[\"']?secret\b)"
KUBERNETES_VALUE = (
    r"(?m:^[ \t]+[\"']?[A-Za-z0-9_.\-]+[\"']?:[ \t]*(?:[|>][+\-]?[ \t]*\n[ \t]+)?"
    r"[\"']?([A-Za-z0-9+/]{4,}={0,2})[\"']?[ \t,]*$)"
)

CARD = r"(?:^|[^A-Za-z0-9_.\-])([2-6](?:[ \-]?[0-9]){12,18})\b"
CARD_LEAD = r"[2-6][0-9]{3}[ \-]?[0-9]{4}[ \-]?[0-9]{4}|3[0-9]{3}[ \-][0-9]{6}"
SSN = r"(?:^|[^A-Za-z0-9_.\-/])([0-9]{3}-[0-9]{2}-[0-9]{4})(?:$|[^A-Za-z0-9_\-])"
SSN_NAMED = (
    r"(?i:\bssn|social[ _\-]?security)[^\n0-9]{0,40}([0-9]{3}[ \-]?[0-9]{2}[ \-]?[0-9]{4})\b"
)
