"""The patterns of secrets: one rule for each kind, in the syntax of RE2, over bytes.

A rule has a `lead`, which is cheap to search for together with all others, and a `pattern`, which
runs only where the lead occurs. Group 1 of the pattern is the secret; `check` decides about it.
All shapes are documented by their providers. Most bodies are open-ended, so that a longer variant
leaves no tail behind.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agent_memory.features.secrets.model import secrets

Accepts = Callable[[str], bool]


# The start of a token, also after an escaped line end, as in JSON within JSON.
START = r"(?:\b|_|\\[nrt])"
ANYWHERE = ""
HEX = "[0-9a-f]"
HEX_ANY = "[0-9a-fA-F]"
ALNUM = "[A-Za-z0-9]"
URLSAFE = r"[A-Za-z0-9_\-]"
SOME = r"[A-Za-z0-9_+/.=%\-]{6}"
B64 = "[A-Za-z0-9+/]"
UUID = f"{HEX_ANY}{{8}}-{HEX_ANY}{{4}}-{HEX_ANY}{{4}}-{HEX_ANY}{{4}}-{HEX_ANY}{{12}}"


def is_genuine(value: str) -> bool:
    return not secrets.is_dummy(value)


@dataclass(frozen=True, slots=True)
class SecretRule:
    kind: str
    lead: str
    pattern: str
    check: Accepts = is_genuine
    begins: str = ""  # the lead of a token without its context


def is_scrambled(value: str) -> bool:
    """Accept random values only: for prefixes that names may have too."""
    return is_genuine(value) and not secrets.is_readable(value)


def is_numbered(value: str) -> bool:
    return is_genuine(value) and (
        any(c.isdigit() for c in value[4:]) or not secrets.is_readable(value)
    )


def is_varied(value: str) -> bool:
    """Accept random values with digits or letters of both cases: for prefixes of names too."""
    body = value[3:]
    both = body != body.lower() and body != body.upper()
    return is_scrambled(value) and (both or any(c.isdigit() for c in body))


def is_mixed(value: str) -> bool:
    """Accept random values with letters and digits: for prefixes that words may have too."""
    body = value[3:]
    return is_scrambled(value) and any(c.isdigit() for c in body) and any(c.isalpha() for c in body)


def accept_any(_: str) -> bool:
    return True


def _token(
    kind: str,
    lead: str,
    body: str,
    check: Accepts = is_genuine,
    *,
    then: str = SOME,
    start: str = START,
) -> SecretRule:
    """Return the rule of a token with a prefix.

    `then` must follow the prefix for the rule to be tried. `start` comes before the prefix:
    ANYWHERE is for a prefix that no word ends with.
    """
    tried = f"{lead}{then}"
    return SecretRule(kind, f"{start}{tried}", f"{start}({lead}{body})", check, tried)


DISCORD_LEAD = rf"[MNO]{URLSAFE}{{23,27}}\.{URLSAFE}{{6}}\."

PROVIDER_RULES: tuple[SecretRule, ...] = (
    # clouds
    _token("aws-access-key", "(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])", r"[A-Z0-9]{16}\b"),
    _token("aws-bedrock-key", "ABSK", f"{B64}{{100,}}={{0,2}}"),
    _token("aws-bedrock-key", "bedrock-api-key-", f"{B64}{{16,}}={{0,2}}"),
    _token("aws-mws-key", r"amzn\.mws\.", UUID),
    _token("gcp-api-key", "AIza", f"{URLSAFE}{{35,}}", is_scrambled),
    _token("gcp-client-secret", "GOCSPX-", f"{URLSAFE}{{24,}}", start=ANYWHERE),
    _token("gcp-oauth-token", r"ya29\.", r"[A-Za-z0-9_.\-]{20,}"),
    _token("gcp-refresh-token", "1//0", f"{URLSAFE}{{30,}}", is_mixed),
    SecretRule(
        "azure-client-secret",
        "[0-9]Q~",
        r"(?:^|[^A-Za-z0-9_~.\-]|\\[nrt])([A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.\-]{31,})",
    ),
    SecretRule(
        "azure-shared-key",
        "(?i:account|shared ?access)_?(?i:key)",
        rf"(?i:accountkey|sharedaccesskey)\s?=\s?({B64}{{40,}}={{0,2}})",
    ),
    SecretRule("azure-sas-signature", "[?&;]sig=", "[?&;]sig=([A-Za-z0-9%+/]{40,}={0,2})"),
    _token("alibaba-access-key", "LTAI", f"{ALNUM}{{17,}}", is_varied),
    _token("digitalocean-token", "do[opr]_v1_", f"{HEX}{{64,}}", start=ANYWHERE),
    _token("heroku-key", "HRKU-", f"{URLSAFE}{{36,}}"),
    _token("fly-token", "(?:fo1_|fm1[ar]_|fm2_)", r"[A-Za-z0-9_\-+/=,]{20,}", is_scrambled),
    _token("scalingo-token", "tk-us-", f"{URLSAFE}{{40,}}"),
    _token("yandex-key", "AQVN", f"{URLSAFE}{{35,}}", is_scrambled),
    _token("yandex-token", r"t1\.[A-Z0-9a-z_\-]{1,40}\.", f"{URLSAFE}{{60,}}"),
    _token("yandex-key", "YC[A-Z]", f"{URLSAFE}{{37,}}", is_mixed),
    _token("cloudflare-origin-key", r"v1\.0-", f"{HEX}{{24}}-{HEX}{{100,}}"),
    _token("supabase-token", "sb[ps]_", f"(?:{HEX}{{40,}}|(?:secret_){URLSAFE}{{20,}})"),
    _token("vercel-token", "vc[pkiar]_", f"{ALNUM}{{24,}}", is_varied),
    _token("netlify-token", "nf[pcoub]_", f"{ALNUM}{{36,}}"),
    _token("planetscale-token", "pscale_(?:tkn|oauth|pw)_", r"[A-Za-z0-9_.=\-]{32,}"),
    _token("databricks-token", "dapi", f"{HEX}{{32}}(?:-[0-9])?"),
    _token("openshift-token", "sha256~", f"{URLSAFE}{{43,}}"),
    _token("gcp-api-key", r"AQ\.A", f"{URLSAFE}{{40,}}", is_mixed),
    _token("gcp-auth-code", "4/0A", f"{URLSAFE}{{40,}}", is_mixed),
    SecretRule(
        "azure-devops-token", "JQQJ99[A-L0-9]", rf"{START}({ALNUM}{{40,60}}JQQJ99{ALNUM}{{20,}})"
    ),
    SecretRule(
        "azure-key",
        r"\+(?:ASt|AMC|ABa|ARm|AEh|ASb|AIo)[A-Za-z0-9]",
        rf"{START}({B64}{{30,76}}\+(?:ASt|AMC|ABa|ARm|AEh|ASb|AIo){B64}{{5,6}}={{0,2}})",
    ),
    SecretRule(
        "azure-key",
        "(?:AzFu|AzSe|ACDb|AzCa)[A-Za-z0-9]",
        rf"{START}([A-Za-z0-9_\-+/]{{40,76}}(?:AzFu|AzSe|ACDb|AzCa)[A-Za-z0-9+/]{{5,}}={{0,2}})",
    ),
    _token("cloudflare-token", "cf(?:k|ut|at)_", f"{ALNUM}{{36,}}", is_varied),
    _token("render-key", "rnd_", f"{ALNUM}{{28,}}", is_varied),
    _token("neon-key", "napi_", f"{ALNUM}{{40,}}", is_varied),
    _token("deno-token", "dd[pwo]_", f"{ALNUM}{{36}}\\b", is_varied),
    _token("tencent-key", "AKID", f"{ALNUM}{{32}}\\b", is_varied),
    _token("volcengine-key", "AKLT", f"{ALNUM}{{40,}}", is_varied),
    _token("baidu-key", "bce-v3/ALTAK-", r"[A-Za-z0-9/]{40,}"),
    _token("scaleway-key", "SCW", r"[A-Z0-9]{17}\b", is_mixed),
    _token("upcloud-token", "ucat_", "[A-Z0-9]{20,}"),
    _token("hashicorp-secret", r"hcp\.", f"{URLSAFE}{{40,}}", is_varied),
    _token("aiven-token", "aivenv1_", f"{B64}{{40,}}={{0,2}}"),
    _token("mongodb-secret", "mdb_sa_sk_", f"{URLSAFE}{{30,}}"),
    _token("cockroach-key", "CCDB1_", r"[A-Za-z0-9_]{40,}"),
    _token("materialize-password", "mzp_", f"{HEX}{{60,}}"),
    _token("dbt-token", "dbt[cus]_", r"[A-Za-z0-9_\-=]{36,}", is_varied),
    # code and packages
    _token("github-token", "gh[pousr]_", f"{ALNUM}{{36,}}", start=ANYWHERE),
    _token("github-token", "github_pat_", "[A-Za-z0-9_]{36,}", start=ANYWHERE),
    _token(
        "gitlab-token", "gl(?:[a-z]{2,6})-", r"[A-Za-z0-9_\-]{20,}(?:\.[a-z0-9.]{9,})?", is_varied
    ),
    _token("gitlab-runner-token", "GR1348941", f"{URLSAFE}{{20,}}"),
    SecretRule("gitlab-session", "_gitlab_session=", "_gitlab_session=([0-9a-z]{32,})"),
    _token("bitbucket-password", "ATBB", f"{ALNUM}{{24,}}", is_varied),
    _token("atlassian-token", "AT(?:ATT|CTT)3", r"[A-Za-z0-9_=\-]{50,}", start=ANYWHERE),
    _token("npm-token", "npm_", f"{ALNUM}{{36,}}", is_scrambled, start=ANYWHERE),
    _token("pypi-token", "pypi-", "Ag[A-Za-z0-9_\\-]{50,}", start=ANYWHERE),
    _token("rubygems-key", "rubygems_", f"{HEX}{{48,}}"),
    _token("clojars-token", "CLOJARS_", "[a-z0-9]{60,}"),
    _token("docker-token", "dckr_[a-z]{2,4}_", f"{URLSAFE}{{24,}}", start=ANYWHERE),
    _token("artifactory-key", "AKCp", f"{ALNUM}{{60,}}"),
    _token("artifactory-token", "cmVmd", f"{ALNUM}{{59,}}", is_mixed),
    _token("sourcegraph-token", "sgp_", f"(?:{HEX_ANY}{{16}}_|local_)?{HEX_ANY}{{40,}}"),
    _token("postman-key", "PMAK-", f"{HEX_ANY}{{24}}-{HEX_ANY}{{30,}}"),
    _token("buildkite-token", "bk(?:ua|pt|aj)_", f"{HEX}{{40,}}"),
    _token("circleci-token", "CCI(?:PAT|PRJ)_", f"{ALNUM}{{16,}}_{HEX}{{40,}}"),
    _token("sonar-token", "sq[uap]_", f"{ALNUM}{{40,}}"),
    _token("octopus-key", "API-", r"[A-Z0-9]{25,26}\b", is_mixed),
    _token("snyk-token", "snyk_[a-z]{2,4}", r"[A-Za-z0-9._\-]{24,}", is_varied),
    _token("harness-key", r"[ps]at\.", rf"{URLSAFE}{{22}}\.{ALNUM}{{24}}\.{ALNUM}{{20,}}"),
    _token("readme-key", "rdme_", "[a-z0-9]{70,}"),
    _token("prefect-key", "pnu_", f"{ALNUM}{{36,}}"),
    _token("prefect-key", "pnb_", f"{ALNUM}{{36,}}", is_varied),
    _token("crates-token", "cio", rf"{ALNUM}{{32}}\b", is_mixed, then=f"{ALNUM}{{10}}"),
    _token("nuget-key", "oy2", r"[a-z0-9]{43}\b", is_mixed, then="[a-z0-9]{10}"),
    _token("packagist-token", "packagist_[a-z]{2,4}_", f"{HEX}{{60,}}"),
    _token("depot-token", "depot_(?:org|project|user)_", f"{URLSAFE}{{40,}}"),
    _token("chromatic-token", "chpt_", f"{HEX}{{12,}}"),
    _token("wakatime-key", "waka_(?:sec_)?", r"[A-Za-z0-9\-]{30,}", is_varied),
    _token("kong-token", "[ks]pat_", f"{ALNUM}{{40,}}", is_varied),
    _token("cursor-key", "(?:key|crsr)_", f"{HEX}{{64}}\\b", then=f"{HEX}{{10}}"),
    # secrets managers and infrastructure
    _token("vault-token", r"hv[sbr]\.", f"{URLSAFE}{{24,}}", is_varied),
    SecretRule(
        "vault-token",
        r"\b[sb]\.[A-Za-z0-9]{24}",
        rf"(?:^|[^A-Za-z0-9_.$)\]]|\\[nrt])([sb]\.{ALNUM}{{24}})\b",
        is_mixed,
    ),
    SecretRule(
        "terraform-token", r"\.atlasv1\.", rf"({ALNUM}{{14}}\.atlasv1\.[A-Za-z0-9_=\-]{{60,}})"
    ),
    _token("doppler-token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.", r"[A-Za-z0-9_.\-]{40,}"),
    _token("pulumi-token", "pul-", f"{HEX}{{40}}\\b"),
    _token("age-secret-key", "AGE-SECRET-KEY-1", "[0-9A-Z]{58,}", accept_any),
    _token("onepassword-key", "A3-[A-Z0-9]{6}-", r"[A-Z0-9\-]{22,}"),
    _token("onepassword-token", "ops_eyJ", f"{B64}{{100,}}={{0,2}}"),
    _token("infracost-key", "ico-", f"{ALNUM}{{32}}\\b", is_varied),
    _token("tailscale-key", "tskey-[a-z]{3,8}-", f"{URLSAFE}{{16,}}", is_scrambled),
    _token("defined-networking-token", "dnkey-", r"[A-Za-z0-9_=\-]{40,}"),
    _token("dynatrace-token", r"dt0[a-z][0-9]{2}\.", r"[A-Za-z0-9]{24}\.[A-Za-z0-9]{60,}"),
    _token("settlemint-token", "sm_[aps]at_", f"{ALNUM}{{16,}}"),
    _token(
        "bitwarden-token",
        r"0\.",
        rf"{UUID}\.{ALNUM}{{20,}}:[A-Za-z0-9+/=]{{20,}}",
        accept_any,
        then=f"{HEX_ANY}{{8}}-",
    ),
    _token("infisical-token", r"st\.", rf"{UUID}\.{HEX}{{30,}}\.{HEX}{{30,}}"),
    _token("netbird-token", "nbp_", f"{ALNUM}{{36,}}", is_varied),
    _token("ory-token", "ory_(?:pat|at|rt|st|ac)_", f"{URLSAFE}{{20,}}", is_varied),
    _token("workos-key", "sk_(?:live|test)_[a-z]{2,8}_", f"{URLSAFE}{{20,}}", is_varied),
    # models
    _token(
        "anthropic-key",
        r"sk-ant-[a-z]{2,8}[0-9]{2}-",
        f"{URLSAFE}{{20,}}",
        is_varied,
        start=ANYWHERE,
    ),
    _token("openai-key", "sk-(?:proj|svcacct|admin|None)-", f"{URLSAFE}{{20,}}", is_varied),
    _token("openrouter-key", "sk-or-v1-", f"{HEX}{{48,}}"),
    _token("openai-key", "sk-", f"{ALNUM}{{20,}}", is_numbered),
    _token("huggingface-token", "hf_", f"{ALNUM}{{30,}}", is_scrambled),
    _token("huggingface-token", "api_org_", f"{ALNUM}{{30,}}", is_scrambled),
    _token("perplexity-key", "pplx-", f"{ALNUM}{{40,}}"),
    _token("groq-key", "gsk_", f"{ALNUM}{{40,}}", start=ANYWHERE),
    _token("xai-key", "xai-", f"{ALNUM}{{60,}}"),
    _token("replicate-token", "r8_", f"{ALNUM}{{36,}}", is_varied),
    _token("langsmith-key", "lsv2_[a-z]{2}_", f"{HEX}{{32}}_{HEX}{{10}}"),
    _token("pinecone-key", "pcsk_", "[A-Za-z0-9_]{40,}"),
    _token("cerebras-key", "csk-", f"{ALNUM}{{40,}}", is_varied),
    _token("fireworks-key", "fw_", f"{ALNUM}{{22,24}}\\b", is_varied),
    _token("together-key", "tgp_v1_", f"{URLSAFE}{{40,}}"),
    _token("nvidia-key", "nvapi-", f"{URLSAFE}{{60,}}"),
    _token("elevenlabs-key", "sk_", f"{HEX}{{48}}\\b"),
    _token("cartesia-key", "sk_car_", f"{URLSAFE}{{20,}}", is_varied),
    _token("tavily-key", "tvly-(?:dev-|prod-)?", f"{ALNUM}{{30,}}", is_varied),
    _token("firecrawl-key", "fc-", f"{HEX}{{32}}\\b"),
    _token("langfuse-key", "sk-lf-", f"{UUID}\\b"),
    _token("logfire-token", "pylf_v1_[a-z]{2,5}_", f"{ALNUM}{{40,}}"),
    _token("braintrust-key", "bt-st-", f"{ALNUM}{{40,}}", is_varied),
    _token("helicone-key", "(?:sk|pk)-helicone-", r"[a-z0-9\-]{20,}", is_mixed),
    _token("e2b-key", "e2b_", f"{HEX}{{40}}\\b"),
    _token("jina-key", "jina_", f"{URLSAFE}{{40,}}", is_varied),
    _token("voyage-key", "pa-", f"{URLSAFE}{{43}}\\b", is_mixed),
    _token("llamacloud-key", "llx-", f"{ALNUM}{{40,}}", is_varied),
    _token("wandb-key", "wandb_v1_", f"{URLSAFE}{{40,}}"),
    _token("modal-token", "a[ks]-", rf"{ALNUM}{{22}}\b", is_mixed),
    _token("runpod-key", "rpa_", f"{ALNUM}{{40,}}", is_varied),
    _token("anyscale-secret", "esecret_", f"{ALNUM}{{20,}}", is_varied),
    _token("mem0-key", "m0-", rf"{ALNUM}{{40}}\b", is_varied),
    _token("letta-key", "sk-let-", f"{B64}{{40,}}={{0,2}}"),
    _token("apify-token", "apify_(?:api|proxy)_", f"{ALNUM}{{30,}}"),
    _token("browserbase-key", "bb_live_", f"{URLSAFE}{{20,}}", is_varied),
    _token("brave-key", "BSA", f"{URLSAFE}{{24,30}}\\b", is_mixed),
    # messages
    _token(
        "slack-token", r"xox[a-z](?:\.xox[a-z])?-", r"[A-Za-z0-9\-]{14,}", is_varied, start=ANYWHERE
    ),
    _token("slack-token", "xapp-[0-9]-", r"[A-Za-z0-9\-]{20,}"),
    SecretRule(
        "slack-webhook",
        r"hooks\.slack\.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{40,})",
    ),
    SecretRule(
        "teams-webhook",
        r"webhook\.office\.com/",
        r"webhook\.office\.com/webhookb2/([A-Za-z0-9@/\-]{60,})",
    ),
    SecretRule(
        "discord-webhook", "/api/webhooks/", rf"/api/webhooks/[0-9]{{15,20}}/({URLSAFE}{{50,}})"
    ),
    SecretRule(
        "discord-token",
        DISCORD_LEAD,
        rf"{START}([MNO]{URLSAFE}{{23,27}}\.{URLSAFE}{{6}}\.{URLSAFE}{{27,}})",
        is_mixed,
    ),
    SecretRule(
        "telegram-token",
        "[0-9]{5}:A",
        rf"(?:^|[^0-9A-Za-z]|bot|\\[nrt])([0-9]{{5,16}}:A{URLSAFE}{{34}})\b",
        is_mixed,
    ),
    _token("twilio-key", "SK", f"{HEX}{{32}}\\b"),
    _token("sendgrid-key", r"SG\.", r"[A-Za-z0-9_=.\-]{60,}", is_varied),
    _token("sendinblue-key", "x(?:key|smtp)sib-", f"{HEX}{{64}}-{ALNUM}{{16,}}"),
    _token("mailgun-key", "(?:pub)?key-", f"{HEX}{{32}}\\b"),
    SecretRule(
        "mailgun-signing-key",
        f"{HEX}{{4}}-{HEX}{{8}}-{HEX}{{8}}",
        rf"{START}({HEX}{{32}}-{HEX}{{8}}-{HEX}{{8}})\b",
    ),
    SecretRule("mailchimp-key", f"{HEX}{{4}}-us[0-9]", rf"{START}({HEX}{{32}}-us[0-9]{{1,2}})\b"),
    _token("mapbox-token", r"[ps]k\.(?:eyJ)?", rf"[A-Za-z0-9]{{57,}}\.{URLSAFE}{{20,}}", is_mixed),
    _token("resend-key", "re_", f"{ALNUM}{{8}}_{ALNUM}{{24,}}", is_varied),
    _token("mailersend-token", r"mlsn\.", f"{HEX}{{60,}}"),
    _token("mandrill-key", "md-", f"{URLSAFE}{{22}}\\b", is_mixed),
    _token("slack-token", "xwfp-", r"[A-Za-z0-9\-]{20,}", is_varied),
    SecretRule(
        "firebase-key", ":APA91b", rf"{START}([A-Za-z0-9_\-]{{8,}}:APA91b{URLSAFE}{{100,}})"
    ),
    SecretRule(
        "webhook",
        r"(?:hooks\.zapier\.com|hook\.[a-z0-9.]+\.make\.com|outlook\.office\.com/webhook)/",
        r"(?:hooks\.zapier\.com/hooks/catch/|hook\.[a-z0-9.]+\.make\.com/"
        r"|outlook\.office\.com/webhook/)([A-Za-z0-9@/_\-]{12,})",
    ),
    # money and shops
    _token("stripe-key", "[sr]k_(?:live|test|prod)_", f"{ALNUM}{{10,}}", is_scrambled),
    _token("stripe-webhook-secret", "whsec_", f"{B64}{{24,}}={{0,2}}", is_varied),
    _token("square-token", "sq0[a-z]{3}-", f"{URLSAFE}{{22,}}", start=ANYWHERE),
    _token("square-token", "EAAA", f"{URLSAFE}{{60}}", is_mixed),
    _token("shopify-token", "shp[a-z]{2}_", f"{HEX_ANY}{{32,}}", start=ANYWHERE),
    _token("easypost-key", "EZ[AT]K", f"{ALNUM}{{54,}}"),
    _token("flutterwave-key", "FLW(?:PUB|SEC)K(?:_TEST)?-", f"{HEX_ANY}{{12,}}(?:-X)?"),
    _token("duffel-token", "duffel_(?:test|live)_", r"[A-Za-z0-9_=\-]{40,}"),
    _token("shippo-token", "shippo_(?:live|test)_", f"{HEX}{{40,}}"),
    _token("plaid-token", "access-(?:sandbox|development|production)-", UUID),
    _token("lob-key", "(?:live|test)_(?:pub_)?", f"{HEX}{{31,35}}\\b", then=f"{HEX}{{10}}"),
    _token("gocardless-token", "live_", r"[A-Za-z0-9_=\-]{40}\b", is_mixed),
    _token("razorpay-key", "rzp_(?:live|test)_", f"{ALNUM}{{14,}}", is_varied),
    _token("xendit-key", "xnd_(?:development|production)_", f"{ALNUM}{{30,}}"),
    _token("stripe-key", "sk_org_(?:live|test)_", f"{ALNUM}{{20,}}", is_varied),
    _token("woocommerce-key", "c[ks]_", f"{HEX}{{40}}\\b"),
    _token("adyen-key", "AQE[a-z]", rf"[A-Za-z0-9+/=]{{20,}}-[A-Za-z0-9+/=]{{20,}}-{ALNUM}{{10,}}"),
    _token("amazon-login-secret", r"amzn1\.oa2-cs\.v1\.", f"{HEX}{{60,}}"),
    _token(
        "paypal-token", r"access_token\$(?:production|sandbox)\$", r"[a-z0-9]{12,}\$[a-f0-9]{30,}"
    ),
    # work
    _token("linear-key", "lin_(?:api|oauth)_", f"{ALNUM}{{32,}}", start=ANYWHERE),
    _token("notion-token", "ntn_", f"[0-9]{{11}}{ALNUM}{{32,}}"),
    _token("notion-token", "secret_", f"{ALNUM}{{43}}\\b", is_varied),
    _token("airtable-token", "pat", rf"{ALNUM}{{14}}\.{HEX}{{64}}", then=rf"{ALNUM}{{14}}\."),
    _token("figma-token", "fig[dour]_", f"{URLSAFE}{{36,}}"),
    _token("typeform-token", "tfp_", r"[A-Za-z0-9_.=\-]{40,}"),
    _token("frameio-token", "fio-u-", r"[A-Za-z0-9_=\-]{60,}"),
    _token("asana-token", "[12]/[0-9]{14,17}[:/]", f"(?:[0-9]{{14,17}}:)?{HEX}{{32}}"),
    _token("contentful-token", "CFPAT-", f"{URLSAFE}{{40,}}"),
    _token("hubspot-token", "pat-(?:na|eu|ap)[0-9]-", UUID),
    _token("clickup-token", "pk_[0-9]{6,10}_", "[A-Z0-9]{32}"),
    _token("klaviyo-key", "pk_", f"{HEX}{{34}}\\b"),
    _token("canva-secret", "cnvca", f"{URLSAFE}{{40,}}", is_mixed),
    _token("zuplo-key", "zpka_", "[A-Za-z0-9_]{30,}", is_varied),
    _token("salesforce-session", "00D[A-Za-z0-9]{12,15}!", r"[A-Za-z0-9._]{60,}", is_mixed),
    _token("riot-key", "RGAPI-", f"{UUID}\\b"),
    _token("vk-token", r"vk1\.a\.", f"{URLSAFE}{{60,}}"),
    _token("adobe-secret", "p8e-", f"{HEX_ANY}{{32}}"),
    _token(
        "authress-key",
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.",
        r"[a-z0-9]{4,6}\.acc[_-][a-z0-9\-]{10,32}\.[A-Za-z0-9+/_=\-]{30,}",
    ),
    _token("intra42-secret", "s-s4t2(?:ud|af)-", f"{HEX}{{64}}"),
    SecretRule(
        "sidekiq-secret",
        r"(?i:contribsys__com|contribsys\.com)",
        r"(?i:contribsys__com|contribsys\.com)[^\n]{0,8}?[ \"'`=:]"
        rf"({HEX}{{8}}:{HEX}{{8}})\b",
        accept_any,
    ),
    # watching
    _token("sentry-token", "sntry[su]_", r"[A-Za-z0-9+/=_\-]{40,}", is_varied),
    _token("grafana-token", "gl(?:c|sa)_", r"[A-Za-z0-9+/=_]{32,}", is_varied),
    _token("grafana-key", "eyJrIjoi", r"[A-Za-z0-9+/=]{40,}"),
    _token("newrelic-key", "NR(?:AK|II|JS|RA|AA|AL|SP)-", r"[A-Za-z0-9_\-]{19,}"),
    _token("launchdarkly-key", "(?:sdk|api|mob)-", f"{UUID}\\b"),
    _token("beamer-token", "b_", r"[A-Za-z0-9_=\-]{44}\b", is_mixed),
    _token("posthog-key", "ph[xs]_", f"{ALNUM}{{36,}}", is_varied),
    _token("honeycomb-key", "hc[abcmx][il]?[kc]?_", f"{ALNUM}{{40,}}", is_varied),
    _token("axiom-token", "xa[ap]t-", f"{UUID}\\b"),
    # people
    _token("facebook-token", "EAA[A-Z]", f"{ALNUM}{{80,}}", is_mixed),
    SecretRule(
        "facebook-token",
        r"[0-9]{15}(?:\||%7[cC])",
        rf"{START}([0-9]{{15,16}}(?:\||%7[cC]){URLSAFE}{{27}})\b",
    ),
    _token("twitter-bearer", "A{20,24}", "[A-Za-z0-9%]{70,}", is_mixed),
    _token("dropbox-token", r"sl\.(?:u\.)?", r"[A-Za-z0-9_\-]{120,}", is_mixed),
    _token("linkedin-secret", "WPL_AP[01]\\.", r"[A-Za-z0-9.=]{16,}"),
    _token("agent-memory-key", "am_", f"{URLSAFE}{{43}}\\b", is_varied),
    SecretRule(
        "okta-token",
        r"(?:\b|_)(?i:okta|ssws)",
        rf"(?:\b|_)(?i:okta|ssws)[^\n]{{0,40}}?[\s\"'`=:](00{URLSAFE}{{40}})\b",
        is_scrambled,
    ),
    _token(
        "jwt",
        r"ey[A-Za-z0-9_\-]{8,}\.ey",
        r"[A-Za-z0-9_/\-]{8,}(?:\.[A-Za-z0-9_/=\-]*)?",
        is_scrambled,
    ),
    _token("jwt", "ZXlK", r"[A-Za-z0-9+/_\-]{60,}={0,2}", is_mixed),
)

# Passwords in URLs: `user:password@host`, also without a user.
URL_PASSWORD = SecretRule(
    "url-password",
    r"://[^\s/:@\"'`<>]*:[^\s/\"'`<>]",
    r"[A-Za-z][A-Za-z0-9+.\-]{1,30}://[^\s/:@\"'`<>]*:([^\s/\"'`<>][^\s\"'`<>/]*)@[A-Za-z0-9\[_$%{(*]",
    lambda value: not secrets.is_reference(value) and not set(value) <= set("*xX.-_"),
)


URL_RULES: tuple[SecretRule, ...] = (
    URL_PASSWORD,
    SecretRule(  # a token in place of the user
        "url-password",
        r"://[A-Za-z0-9_.\-]{16,}(?::[a-z\-]*)?@",
        r"://([A-Za-z0-9_.\-]{16,})(?::[a-z\-]*)?@[A-Za-z0-9]",
        secrets.is_key,
    ),
    SecretRule(
        "url-token",
        r"://[^\s\"'<>]*/(?i:bot|private-|hooks?/|webhooks?/|services/|triggers?/|reset|invit|confirm|"
        r"verify/|activate/|magic|unsubscribe/|key/|token/|secret/|trigger/)",
        r"://[^\s\"'<>]*/(?i:bot|private-|(?:hooks?|webhooks?|services|triggers?|reset[a-z\-_]*|"
        r"invit[a-z]*|confirm[a-z]*|verify|activate|magic[a-z\-]*|unsubscribe|key|token|secret)/)"
        r"([A-Za-z0-9_\-+=%.]{16,})",
        secrets.is_key,
    ),
    SecretRule("url-token", r"hc-ping\.com/", rf"hc-ping\.com/({UUID})"),
)


def _is_password(value: str) -> bool:
    return secrets.is_password(value, quoted=True)


def _context(
    lead: str, pattern: str, check: Accepts = _is_password, kind: str = "password"
) -> SecretRule:
    return SecretRule(kind, lead, pattern, check)


VALUE = r"[\"']?([^\s\"'|;]+)"
_MAYBE_QUOTED = r"[\"']?([^\s\"'|;()<>{}\[\],]*[0-9][^\s\"'|;()<>{}\[\],]*)"


def _is_jumbled_or_key(value: str) -> bool:
    value = value.rstrip(".!?:")
    return secrets.is_jumbled(value) or (len(value) >= 16 and secrets.is_token(value))


_ARGUMENTS = r"[^\n|;]{0,100}?"
_MYSQL = r"\b(?:mysql[a-z]*|mariadb[a-z\-]*)\s"
_WITH_P = (
    r"\b(?:(?:docker|podman|nerdctl|buildah|skopeo|helm|oras|crane|regctl|oc|az|cf|heroku)"
    r"\s+(?:\S+\s+)?login|mongo(?:sh|dump|restore|export|import)?|cqlsh|rdesktop|twine|useradd|"
    r"dotnet\s+nuget)\s"
)
_WITH_BIG_P = (
    r"\b(?:sqlcmd|bcp|osql|tsql|mosquitto_(?:pub|sub)|zip|unzip|zipcloak|ipmitool)(?:\.exe)?\s"
)
_ORACLE = r"\b(?:sqlplus|(?:exp|imp)dp|sqlldr|rman|jdbc:oracle:[a-z]+:)"
_FED = (  # commands that read a password from their input
    r"(?:--(?:password|token|pass|passphrase)-(?:stdin|fd)|--with-token|\bsudo\s+-[A-Za-z]*S|"
    r"\bchpasswd|\b(?:smb)?passwd\s+-|\bkinit\s|\bcryptsetup\s|\bhtpasswd\s+-[A-Za-z]*i|"
    r"\bvault\s+login|\bsecret\s+(?:put|set|create)\s|\bpass\s+insert)"
)
_PG_PORT = r":(?:\*|5[45][0-9]{2}|6432|6543|[12]5432|26257):"

# Passwords by their place in a command or file. Leads are short: longer ones give the automaton of
# all together too many states.
CONTEXT_RULES: tuple[SecretRule, ...] = (
    _context(r"\blogin\s+\S+\s+password\s", r"\blogin\s+\S+\s+password\s+(\S+)"),  # .netrc
    _context(r"\bsshpass\s+-p", rf"\bsshpass\s+-p\s*{VALUE}"),
    _context(_MYSQL, rf"{_MYSQL}(?:{_ARGUMENTS}\s)?-p{VALUE}"),
    _context(_WITH_P, rf"{_WITH_P}(?:{_ARGUMENTS}\s)?-p[ =]?{VALUE}"),
    _context(_WITH_BIG_P, rf"{_WITH_BIG_P}(?:{_ARGUMENTS}\s)?-P ?{VALUE}"),
    _context(r"\bredis-cli\s", rf"\bredis-cli\s(?:{_ARGUMENTS}\s)?-a {VALUE}"),
    _context(r"\bldap[a-z]+\s", rf"\bldap[a-z]+\s(?:{_ARGUMENTS}\s)?-w ?{VALUE}"),
    _context(r"\b7z[ar]?\s", rf"\b7z[ar]?\s(?:{_ARGUMENTS}\s)?-p{VALUE}"),
    _context(r"\s-pw ", rf"\b(?:plink|pscp|psftp|kitty)(?:\.exe)?\s(?:{_ARGUMENTS}\s)?-pw {VALUE}"),
    _context(r"\s-(?:store|key|src|dest)pass ", rf"\s-(?:store|key|src|dest)pass {VALUE}"),
    _context(r"pass:\S", r"-pass(?:in|out|word)?[ =][\"']?pass:([^\s\"']+)"),
    _context(r"(?i:\s/(?:p|pass|password):)\S", rf"(?i:\s/(?:p|pass|password):){VALUE}"),
    _context(
        r"\s-U\s*[^\s%]+%\S", rf"\b(?:smb|rpc)client\s(?:{_ARGUMENTS}\s)?-U\s*[^\s%]+%{VALUE}"
    ),
    _context(r"(?i:\bnet user )", rf"(?i:\bnet user )\S+ {VALUE}[^\n]* /(?i:add)"),
    _context(r"(?i:SecureString)", rf"(?i:ConvertTo-SecureString(?: -String)?) {VALUE}"),
    _context(
        r"\bhtpasswd\s+-",
        r"\bhtpasswd\s+(?:-C ?[0-9]+\s+|-[A-Za-z0-9]+\s+)*-[A-Za-z]*b[A-Za-z]*\s+"
        r"(?:-C ?[0-9]+\s+|-[A-Za-z0-9]+\s+)*[^\s\-]\S*\s+(?:[^\s|;&>]\S*\s+)?"
        rf"{VALUE}",
    ),
    _context(
        _FED,
        r"\b(?:echo|printf)\s+(?:-[neE]+\s+|[\"']%s(?:\\n)?[\"']\s+)*[\"']?([^\s\"'|]+)[\"']?\s*\|"
        rf"[^\n]{{0,120}}{_FED}",
    ),
    _context(_FED, rf"{_FED}[^\n]{{0,60}}?<<<\s*{VALUE}"),
    _context(
        r"(?i:\bidentified\s|\S\s+password\s+')",
        r"(?i:\bidentified\s[^\n;]{0,60}?\bby|\b(?:with|encrypted|login)\s+password|"
        r"\b(?:user|role|login)\s+\S+\s+password)\s+'([^'\n]+)'",
    ),
    _context(  # .pgpass
        rf"{_PG_PORT}[^\s:]+:[^\s:]+:\S",
        rf"(?m:^[ \t]*[A-Za-z0-9*._\-\[\]]+{_PG_PORT}[^\s:]+:[^\s:]+:(\S+)$)",
    ),
    _context(
        r"--(?:body|value|data)[ =]|\bsecret\s+set\s",
        rf"(?i:secret|password|token)[^\n]{{0,120}}?[ \t](?:-b|--(?:body|value|data))[ =]?{VALUE}",
    ),
    _context(_ORACLE, rf"{_ORACLE}[ \t]*[A-Za-z0-9_]+/([^\s/@\"']+)@"),
    _context(  # the plan of Terraform
        r"\" -> \"",
        r"(?i:pass|secret|token|key)[^\n=]*=[ \t]*\"[^\"\n]*\" -> \"([^\"\n]+)\"",
        lambda value: _is_password(value) and not secrets.is_readable(value),
    ),
    _context(r"\blftp\s", rf"\blftp\s(?:{_ARGUMENTS}\s)?-u [^\s,]+,{VALUE}"),
    _context(r"(?i:\bnet use )", rf"(?i:\bnet use )(?:\S:\s)?\S+ {VALUE}[^\n]* /(?i:user):"),
    _context(r"\brabbitmqctl\s", rf"\brabbitmqctl\s+(?:add_user|change_password)\s+\S+\s+{VALUE}"),
    _context(r"-generic-password\s", rf"-generic-password\s(?:{_ARGUMENTS}\s)?-w ?{VALUE}"),
    _context(r"\bssh-keygen\s", rf"\bssh-keygen\s(?:{_ARGUMENTS}\s)?-[NP] ?{VALUE}"),
    _context(r"\bopenssl\s+enc\s", rf"\bopenssl\s+enc\s(?:{_ARGUMENTS}\s)?-[kK] ?{VALUE}"),
    _context(r"\bsnmp[a-z]+\s+-", rf"\bsnmp[a-z]+\s(?:{_ARGUMENTS}\s)?-[AX] ?{VALUE}"),
    _context(r"\bmc\s+alias\s+set\s", rf"\bmc\s+alias\s+set\s+\S+\s+\S+\s+\S+\s+{VALUE}"),
    _context(r"\bhttp-basic\.\S+\s", rf"\bhttp-basic\.\S+\s+\S+\s+{VALUE}"),
    _context(r"@(?:tcp|unix)\(", r"(?:^|[\s\"'=:/])[A-Za-z0-9_.\-]+:([^\s\"'@]+)@(?:tcp|unix)\("),
    _context(r"\bdb\.auth\(", r"\bdb\.auth\([\"'][^\"'\n]*[\"'],\s*[\"']([^\"'\n]+)[\"']"),
    _context(r"(?i:\bcommunity\s)", rf"(?i:\b(?:r[ow]|snmp-server )community\s){VALUE}"),
    _context(r"\b(?:PSK|EAP|XAUTH)\s+\"", r"\b(?:PSK|EAP|XAUTH)\s+\"([^\"\n]+)\""),  # ipsec.secrets
    _context(r"\]:[0-9]+ ", r"(?m:^\[[^\s\]]+\]:[0-9]+\s+\S+:(\S+)$)"),  # sasl_passwd
    _context(r"\bPASS [^\s]", r"(?m:^[> ]*PASS (\S+)[ \t\r]*$)"),  # ftp, pop
    _context(
        r"\b(?:AUTH|LOGIN|IDENTIFY|unlock|add-authtoken|setapikey|login|auth) [^\s]* ?[^\s]*[0-9]",
        rf"(?:\b(?:AUTH|LOGIN)|\b(?:IDENTIFY|unlock|add-authtoken|setapikey|login|auth))"
        rf"(?: (?:default|PLAIN|LOGIN|[a-z]+))?\s+{_MAYBE_QUOTED}",
        _is_jumbled_or_key,
    ),
    _context(r"(?i:\bunseal key )", rf"(?i:\bunseal key )[0-9]+: {VALUE}"),
    _context(r"(?i:\bsecret ?id)\s*[:=]", rf"(?i:\bsecret ?id)\s*[:=]\s*({UUID})", accept_any),
    _context(r"(?i:\bnew value: )", rf"(?i:\bnew value: ){VALUE}", secrets.is_jumbled),
    # Password hashes: a password can be guessed from them.
    _context(
        r"\$(?:apr1|[1567y]|gy|2[abxy]|argon2[id]+|scrypt|pbkdf2[a-z0-9\-]*)\$[./A-Za-z0-9]",
        r"(\$(?:(?:apr1|[156])\$(?:rounds=[0-9]+\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{20,}"
        r"|2[abxy]\$[0-9]{2}\$[./A-Za-z0-9]{53}"
        r"|(?:y|gy|7)\$[./A-Za-z0-9]{1,10}\$[./A-Za-z0-9]{1,86}\$[./A-Za-z0-9]{40,}"
        r"|(?:argon2(?:id|i|d)|scrypt|pbkdf2[a-z0-9\-]*)\$[^\s\"':]{40,}))",
        is_genuine,
        "password-hash",
    ),
    _context(
        r"\{(?:S?SHA[0-9]*|S?MD5|CRYPT)\}[A-Za-z0-9+/$]",
        r"\{(?:S?SHA[0-9]*|S?MD5|CRYPT)\}([A-Za-z0-9+/$.]{20,}={0,2})",
        is_genuine,
        "password-hash",
    ),
    _context(
        r"\bpbkdf2[_:]sha[0-9]+[$:]",
        r"(\bpbkdf2[_:]sha[0-9]+[$:][^\s\"']{40,})",
        is_genuine,
        "password-hash",
    ),
)

_NOUN = r"(?i:[a-z_\-]*(?:pass|token|secret|key|pw|credential|schl(?:ü|u)ssel|jeton|clave))"
_DETERMINER = (
    "the|this|that|a|an|my|our|your|das|den|der|die|mein|dein|unser|le|la|el|il|un|una|o|as"
)
_V = r"[^\s\"'`()*|,;<>\[\]{}]"
_JUMBLED = rf"[\"'`(*]{{0,3}}({_V}*[0-9]{_V}*)"
# What people write, beside the forms that begin with a name (below).
CONTEXT_RULES += (
    SecretRule(
        "cookie",
        r"(?:SESSID|SESSIONID|SessionId|\bsessionid|\.sid|_session|\bsid)=[A-Za-z0-9%]",
        r"(?:SESSID|SESSIONID|SessionId|\bsessionid|\.sid|_session|\bsid)=([A-Za-z0-9%._\-]{16,})",
        secrets.is_key,
    ),
    _context(
        rf"[0-9]{_V}*[\"'`)]?,? (?i:as|als|comme|como|come) (?i:(?:{_DETERMINER}) )?{_NOUN}",
        rf"(?:^|[\s\"'`(])({_V}*[0-9]{_V}*)[\"'`)]?,? (?i:as|als|comme|como|come) "
        rf"(?i:(?:{_DETERMINER}) )?{_NOUN}",
        _is_jumbled_or_key,
        "token",
    ),
    _context(
        rf"(?i:\bkey(?: [a-z]+)*)(?:'s)?[ :\-]+[\"'`(*]*{_V}*[0-9]",
        rf"(?i:\b(?:the|this|that|my|our|your|api|secret|access|new|with|auth) key)"
        rf"(?i:(?: [a-z]+)* (?:is|was|to))?(?:'s)?[ :\-]+{_JUMBLED}",
        _is_jumbled_or_key,
        "token",
    ),
    _context(
        r"(?i:\b(?:creds?|credentials?|log(?:ged|ging)? ?in|sign in|zugangsdaten|anmeldedaten)\b)",
        r"(?i:\b(?:creds?|credentials?|log(?:ged|ging)? ?in|sign in|zugangsdaten|anmeldedaten)\b)"
        rf"(?i:(?: (?:with|as|mit|als|are|is|sind|user))*):? [A-Za-z0-9._@\-]{{2,40}}"
        rf"(?: ?/ ?|:){_JUMBLED}",
        secrets.is_jumbled,
    ),
    _context(
        rf" (?:with|mit) [\"'`(*]*{_V}*[0-9]{_V}*[A-Za-z]{_V}*[0-9]",
        r"(?i:\b(?:log ?in|sign in|authenticate|auth|connect)\b(?: [a-z0-9._@\-]+){0,4}?"
        r" (?:with|mit) "
        rf"){_JUMBLED}",
        _is_jumbled_or_key,
    ),
)

# Assignments: only the name and the operator. Python reads the value and decides about it.
HUMAN_WORDS = (
    "(?:ssh)?pass(?:wor[dt]s?|wd|phrase|code|wrd)?|pwd|psw|pw|kennwort|mot[ _]de[ _]passe|"
    "contrase(?:ñ|n)a|senha|wachtwoord|has(?:ł|l)o|l(?:ö|o)senord|пароль|密(?:码|碼)|口令|パスワード|비밀번호|"
    "psk|bindpw|masterauth|authtok|(?:require|store|key)pass"
)
MACHINE_WORDS = (
    "secret|token|api[_.\\- ]?key|access[_.\\- ]?key|auth[_.\\- ]?key|account[_.\\- ]?key|"
    "encryption[_.\\- ]?key|signing[_.\\- ]?key|private[_.\\- ]?key|license[_.\\- ]?key|"
    "master[_.\\- ]?key|app[_.\\- ]?key|credential|"
    "schl(?:ü|u)ssel|cl(?:é|e) api|clave|chiave|chave|jeton|ключ|токен|密(?:钥|鑰)|令牌|キー|"
    "トークン|토큰"
)
HINTING_WORDS = "key|auth|login|access|session|cookie|creds?|bearer"
SHORT_HINTS = "pat|api"  # as the last word of a name
PROVIDER_NAMES = (
    "adafruit|adobe|airtable|algolia|asana|bittrex|cloudflare|codecov|coinbase|confluent|contentful|"
    "datadog|discord|droneci|dropbox|facebook|fastly|finicity|finnhub|flickr|freshbooks|heroku|"
    "hubspot|intercom|jfrog|kraken|kucoin|launchdarkly|linkedin|looker|mailgun|mapbox|mattermost|"
    "meraki|netlify|nytimes|okta|plaid|rapidapi|sendbird|sentry|snyk|sonar|sourcegraph|squarespace|"
    "sumologic|travisci|twilio|twitch|twitter|zendesk"
)
REST_OF_NAME = r"[A-Za-z0-9_.\-]{0,24}"
CLOSING = r"(?:\\?[\"'`\]]){0,3}"
OPERATOR = r"(?:[ \t]{0,20}(?::{0,3}=>?|\?=|\.=|\|\|=?|:|\xef\xbc\x9a|\xef\xbc\x9d)|>)"
TYPE = r"(?:[ \t]*:?[ \t]+(?i:string|str|&str|&'static str|char\*?|\[\]byte|text|varchar))?"

ASSIGNED = rf"(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))({REST_OF_NAME}){CLOSING}{TYPE}{OPERATOR}"
SET_BY_CALL = (
    rf"(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))({REST_OF_NAME})"
    r"\\?[\"'`][ \t]{0,4},[ \t]{0,4}\\?[\"'`]"
)
SET_BY_FLAG = rf"--(?:[a-z0-9]+-){{0,4}}(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))()[ \t]{{1,4}}[^\s\-]"
FOR = "for|of|on|to|für|von|zum|zur|im|auf|de|du|del|do|da|di|pour|para|per|in"
SET_BY_SENTENCE = (
    rf"(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))()(?: (?i:{FOR})(?: [^\s.,;:=]+){{1,4}})?"
    r"(?: (?i:is|was|ist|war|lautet|est|es|era|é|è)(?: now| jetzt)?[ \t]{0,2}:?[ \t]"
    r"|(?:是|为|為|は|는|은)(?:[ \t:]|\xef\xbc\x9a){0,2})"
)
SET_BY_WORD = (
    r"(?i:\b(?:configure|config)[ \t]+set|\bsetx|\bset[ \t]+-[a-z]{1,3}|\bsetenv|\bENV|\bARG)[ \t]+"
    rf"[A-Za-z0-9_.:/\-]*?(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))({REST_OF_NAME})[\"']?[ \t]{{1,4}}"
)
UNQUOTED = r"[^\s\"'`,;&<>()\[\]{}|]*"
UNQUOTED_LINE = r"[^\s\"'`]*"
# The name in one field of a record, the value in another: XML, plist, lists of variables.
_NEXT_FIELD = (
    r"\\?[\"']?(?:(?i:</(?:key|name)>)\s*|[ \t]*[\s,{])"
    r"(?:\s*\\?\"?[A-Za-z]+\\?\"?[ \t]*[:=][ \t]*\\?\"?[A-Za-z]+\\?\"?,?\s)*[\s<\"'\\,\-]*"
    r"(?i:(?:parameter)?value|default|string)\\?[\"']?[ \t]*(?::|=|>)"
)
RECORD = rf"(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))({REST_OF_NAME}){_NEXT_FIELD}"
HINTED_RECORD = (
    rf"\b([A-Z][A-Z0-9_]*_(?:KEY|AUTH|PAT|API|BEARER|CREDS?)){_NEXT_FIELD}"
    r"\s*[\"'\\]*([A-Za-z0-9+/_=.~\-]{12,})"
)
# A digit follows somewhere in the next word: what else follows a name is seldom worth a look.
WITH_DIGIT = rf"{_V}*[0-9]"
_ARROW = r"\xe2\x86\x92|\xe2\x80[\x93\x94]|->|=>|[|(\-]"
_MARKS = r"[*\"'`]"
_SEPARATOR = (
    rf"(?:{_MARKS}{{0,3}}[,;]|{_MARKS}{{0,3}}:?{_MARKS}{{0,4}}[ \t]+"
    rf"(?:(?:{_ARROW})[ \t]*)?(?:[0-9] )?){_MARKS}{{0,3}}"
)
JUMBLED = rf"{_V}+"
SET_BY_BLANK = rf"(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))({REST_OF_NAME}){_SEPARATOR}{WITH_DIGIT}"
# A caption, and below it a line with the value alone, as tools print a new key.
SET_BY_LINE = (
    rf"(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))({REST_OF_NAME})(?: [^\n:.]+)?:[ \t]*\r?\n\s*"
    rf"{_MARKS}{{0,3}}{WITH_DIGIT}"
)
SET_BY_CHANGE = (
    rf"(?i:({HUMAN_WORDS})|({MACHINE_WORDS}))()(?: (?i:{FOR})(?: [^\s.,;:=]+){{1,4}})?"
    r"(?i: (?:was |were |is |are |has been |been )?(?:now )?(?:changed |set |reset |updated )?to"
    r"| (?:should|will|must|can) (?:now )?be|(?:'|\xe2\x80\x99)s| has"
    r"| hei(?:ß|ss)t| jest| é)[ \t]*:?[ \t]"
    rf"[\"'`(]?{WITH_DIGIT}"
)
HINTED = (
    rf"(?i:(?:{HINTING_WORDS}|({PROVIDER_NAMES})){REST_OF_NAME}|[_\-](?:{SHORT_HINTS}))"
    rf"{CLOSING}{TYPE}{OPERATOR}"
    r"[ \t]{0,4}\\?[\"'`]{0,3}([A-Za-z0-9+/_=.:~\-]{16,})"
)
# They begin with the same words, so that they share the states of an automaton.
NAME_LEADS = frozenset((
    ASSIGNED, SET_BY_CALL, SET_BY_FLAG, SET_BY_WORD, SET_BY_SENTENCE, SET_BY_BLANK, SET_BY_CHANGE,
    SET_BY_LINE, RECORD, HINTED,
))  # fmt: skip
_CREDENTIAL = r"[A-Za-z0-9+/_=.:~@%\-]"
_AUTHORIZATION = (
    r"(?i:(authorization\\?[\"'`]?\]?[ \t]{0,4}[:=,][ \t]{0,4}\\?[\"'`]?)"
    r"|\b(?:bearer|basic)[ \t]{1,4})"
)
_PARAMETER = r"[ \t]{1,4}(?:[a-z_]{1,20}=\\?[\"'])?"
AUTHORIZATION_LEAD = rf"{_AUTHORIZATION}(?:{_CREDENTIAL}{{3,}}{_PARAMETER})?{_CREDENTIAL}{{8}}"
AUTHORIZATION = (  # of any scheme, also `Token token="..."`
    rf"{_AUTHORIZATION}({_CREDENTIAL}{{3,}})(?:{_PARAMETER}({_CREDENTIAL}{{8,}}))?"
)
COOKIES = (
    r"(?:(?i:\bcookie)\\?[\"']?[ \t]?[:=,][ \t]?\\?[\"']?(?:value\\?[\"']?[:=][ \t]?\\?[\"'])?"
    r"|[ \t](?:-b|--cookie)[ =]?[\"'])([^\s=;\"']+=[^\n\"']+)"
)
URL_PARAMETER = (
    r"[?&;#]((?i:[a-z0-9_.\-]*(?:key|token|secret|auth|app_?id|code|sig|signature|sid|session|"
    r"license|ticket|otp|credential|password|passwd|pwd)))=([^\s&\"'<>#`()\[\]{}]{12,})"
)
_ARGUMENT = (
    r"\\?[\"'`]([A-Za-z+/_=.~\-]*[0-9]+[+/_=.~\-]*[A-Za-z][A-Za-z+/_=.~\-]*[0-9]"
    r"[A-Za-z0-9+/_=.~\-]{4,})\\?[\"'`]"
)
CALLED_LEAD = rf"[(,][ \t]*{_ARGUMENT}"
CALLED = (  # a key as argument: new Client("..."), client.auth('...'), require("x")("...")
    r"(\b[A-Z][A-Za-z0-9_]*(?:::new|\.new)?|[A-Za-z_:.>$\\\-]*(?i:client|api|auth[a-z]*|login|"
    r"init[a-z]*|config[a-z]*|setup|connect|token|key|credentials?|secret)|require\([^()\n]*\))"
    rf"\([ \t]*(?:[^()\n]*,[ \t]*)?{_ARGUMENT}"
)
KEY_OPTION = (
    r"(?:^|\s)--?((?:[a-z0-9]+-)*(?i:key|auth|pat|bearer|k))[ =][\"']?([A-Za-z0-9+/_=.~\-]{12,})"
)
USER_OPTION = r"(?:[ \t]-[ua]|--user)[ \t=]{0,4}([\"']?[^\s:\"'<]*[\"']?:[^\s]*)"

PEM_HEADER = r"-----BEGIN[A-Z0-9 ]{0,40} ?PRIVATE KEY(?: BLOCK)?-----"
PEM_FOOTER_LEAD = r"-----END[A-Z0-9 ]{0,40} ?PRIVATE KEY"
PEM_FOOTER = (
    r"((?:[A-Za-z0-9+/]{20,}={0,2}(?:[ \t\r\n]|\\[nr])*)+)-----END[A-Z0-9 ]{0,40} ?PRIVATE KEY"
)
# The beginning of key bodies: DER of RSA and DSA, of EC, of Ed25519 and X25519, of encrypted keys;
# OpenSSH's own format.
KEY_BODY_LEAD = (
    r"\b(?:MII[A-J][A-Za-z0-9+/][AQgw]IBA(?:AKC|AKB|DAN)|MHcCAQEEI|MIGkAgEBBDD|MIHcAgEBBEI|"
    r"MI(?:GH|GT|G2|HU|Hu)AgEAMB[A-Z]GByqGSM49|M[C-F][A-Za-z0-9]CAQ[AE]wBQYDK2V[uw]|"
    r"MII[A-J][A-Za-z0-9+/][A-Za-z0-9+/]B[A-Za-z0-9+/]BgkqhkiG9w0BBQ0w|"
    r"MI[GH][A-Za-z0-9+/]MF[A-Za-z0-9+/]GCSqGSIb3DQEFDT|b3BlbnNzaC1rZXktdjE)"
)
KEY_BODY = (
    rf"({KEY_BODY_LEAD}[A-Za-z0-9+/]{{16,}}(?:(?:[ \t\r\n\"'+,]|\\[nr])*[A-Za-z0-9+/]{{32,}})*"
    r"(?:(?:[ \t\r\n]|\\[nr])*[A-Za-z0-9+/]+)?={0,2})"
)
KEY_MATERIAL = "[A-Za-z0-9+/]{40,}"  # a shorter run means that the text is about keys
PEM_BASE64 = "LS0tLS1CRUdJTiB[A-Za-z0-9+/]{40,}={0,2}"
PUTTY_LEAD = "(?i:Private-Lines): [0-9]"
PUTTY = rf"{PUTTY_LEAD}(?s:.{{0,100}}?)([A-Za-z0-9+/=\r\n]{{40,}}[A-Za-z0-9+/=])"
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
