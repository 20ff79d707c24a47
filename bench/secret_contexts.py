"""Secrets by the place that they stand in: variables, headers, manuals, output and sentences.
The vendors are made up, and the values have no prefix: only the place tells.

`{v}` is a key, `{p}` a password, the other short names are values of a certain form.
"""

import base64
import random
import re
import string
import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple

ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
# The share that has to be found, by group.
GOALS = {"variable": 0.97, "header": 0.98, "manual": 0.85, "output": 0.87, "sentence": 0.9}
_EACH = 6  # samples of a form


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


class Placed(NamedTuple):
    group: str
    form: str
    text: str
    secret: str


def _of(rng: random.Random, alphabet: str, size: int) -> str:
    return "".join(rng.choices(alphabet, k=size))


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _base64(rng: random.Random, size: int) -> str:
    return base64.b64encode(rng.randbytes(size)).decode()


def _key(rng: random.Random) -> str:
    """Return a key as vendors without a prefix make them: most are hex."""
    shapes: tuple[tuple[int, Callable[[], str]], ...] = (
        (8, lambda: _of(rng, HEX, rng.choice((24, 32, 32, 40, 64)))),
        (3, lambda: _uuid(rng)),
        (6, lambda: _of(rng, ALNUM, rng.choice((20, 24, 32, 40)))),
        (4, lambda: _of(rng, LOWER, rng.choice((20, 25, 32, 36)))),
        (2, lambda: _of(rng, ALNUM + "-_", 43).strip("-_") + "k7"),
        (1, lambda: _of(rng, UPPER, rng.choice((20, 24)))),
        (1, lambda: "-".join(_of(rng, UPPER, 5) for _ in range(5))),
        (1, lambda: f"{_of(rng, '123456789', 7)}-{_of(rng, HEX, 32)}"),
    )
    return rng.choices([make for _, make in shapes], [weight for weight, _ in shapes])[0]()


def _password(rng: random.Random) -> str:
    return rng.choice("Tkvw") + _of(rng, ALNUM, rng.choice((9, 11, 13))) + rng.choice(("7", "3!"))


_VALUES: dict[str, Callable[[random.Random], str]] = {
    "v": _key,
    "p": _password,
    "b": lambda rng: base64.b64encode(f"me:{_password(rng)}{_password(rng)}".encode()).decode(),
    "s40": lambda rng: _of(rng, ALNUM + "+/", 40),
    "b44": lambda rng: _base64(rng, 32),
    "b88": lambda rng: _base64(rng, 64),
    "h32": lambda rng: _of(rng, HEX, 32),
    "H32": lambda rng: _of(rng, HEX, 32).upper(),
    "h48": lambda rng: _of(rng, HEX, 48),
    "h64": lambda rng: _of(rng, HEX, 64),
    "h128": lambda rng: _of(rng, HEX, 128),
    "u": _uuid,
    "a24": lambda rng: _of(rng, ALNUM, 24),
    "a68": lambda rng: _of(rng, ALNUM, 68),
    "l25": lambda rng: _of(rng, LOWER, 25),
    "l26": lambda rng: _of(rng, LOWER, 26),
    "l49": lambda rng: _of(rng, LOWER, 49),
    "kube": lambda rng: f"{_of(rng, LOWER, 6)}.{_of(rng, LOWER, 16)}",
    "b32": lambda rng: _of(rng, string.ascii_uppercase + "234567", 32),
}
_VALUE = re.compile(rf"\{{({'|'.join(_VALUES)})\}}")
_SYLLABLES = _words("ka lo mi tru ven zor pla net fi dex sy bra qui hub ly ti")

# `{V}`, `{t}`, `{T}`: a vendor; `{N}`, `{n}`, `{c}`, `{k}`: the name of a variable; ¶: a line end.
NAMES = _words("""
API_KEY TOKEN SECRET API_TOKEN KEY ACCESS_TOKEN APIKEY AUTH_TOKEN CLIENT_SECRET SECRET_KEY
APP_KEY LICENSE_KEY PAT API_SECRET WRITE_KEY ACCESS_KEY AUTH SUBSCRIPTION_KEY PERSONAL_TOKEN
SERVER_KEY APP_SECRET REST_KEY PROJECT_KEY CREDENTIALS API SIGNING_KEY INTEGRATION_KEY PASSWORD
ACCOUNT_TOKEN WEBHOOK_SECRET ADMIN_KEY KEY_SECRET CONSUMER_SECRET BEARER SERVICE_KEY
""")
_VARIABLES = r"""
{V}_{N}={v}
export {V}_{N}={v}
{V}_{N}="{v}"
export {V}_{N}='{v}'
{t}_{n}: {v}
{t}_{n}: "{v}"
{t}:¶  {n}: {v}
{t}:¶  {c}: '{v}'
  - {V}_{N}={v}
    {V}_{N}: {v}
{t}.{n}={v}
set {V}_{N}={v}
$env:{V}_{N} = "{v}"
env {V}_{N}={v} ./run.sh
{t}-{k}: {v}
- name: {V}_{N}¶  value: {v}
- name: {V}_{N}¶  value: "{v}"
""".strip().split("\n")
_HEADERS = r"""
Authorization: Bearer {v}
Authorization: Token {v}
Authorization: {v}
X-Api-Key: {v}
X-{T}-Key: {v}
X-{T}-Token: {v}
{T}-Token: {v}
apikey: {v}
Api-Key: {v}
Authorization: ApiKey {v}
X-Auth-Token: {v}
X-Access-Token: {v}
Authorization: {T} {v}
Authorization: Token token={v}
Authorization: Token token="{v}"
Authorization: Key {v}
Private-Token: {v}
X-{T}-Api-Key: {v}
{T}-Api-Key: {v}
X-{T}-Auth: {v}
X-Auth-Key: {v}
X-Authorization: {v}
Authorization: {T}-token {v}
Ocp-Apim-Subscription-Key: {v}
Authorization: GenieKey {v}
Authorization: OAuth {v}
access-token: {v}
X-Session-Token: {v}
token: {v}
X-Secret: {v}
key: {v}
x-functions-key: {v}
X-Master-Key: {v}
authorization: Bearer {v}
Cookie: session={v}
Cookie: theme=dark; auth={v}; lang=en
Set-Cookie: sid={v}; Path=/; HttpOnly
X-App-Secret: {v}
Proxy-Authorization: Bearer {v}
X-{T}-Secret: {v}
X-API-AUTH: {v}
Authorization: api_key={v}
Authorization: apikey-v1 {v}
X-User-Token: {v}
Auth: {v}
X-{T}-Signature-Key: {v}
Access-Key: {v}
X-License-Key: {v}
X-ApiKey: {v}
Authorization: Digest {v}
""".strip().split("\n")
_WITH_HEADER = r"""
{h}
-H "{h}"
--header '{h}'
> {h}
curl -s -H '{h}' https://api.{t}.com/v1/items
"{hn}": "{hv}"
headers['{hn}'] = '{hv}'
headers = {"{hn}": "{hv}"}
""".strip().split("\n")
_MANUALS = r"""
curl "https://api.{t}.com/v1/latest?access_key={v}"
curl https://api.{t}.com/v2/check?api_key={v}&email=a@b.example
GET https://{t}.com/api?key={v}
https://api.{t}.com/json?apikey={v}&q=berlin
https://api.{t}.com/data?appid={v}
curl -u {v}: https://api.{t}.com/v1/charges
curl -u "{v}:x" https://{t}.com/api/v2/tickets
curl -u api:{v} https://api.{t}.net/v3/messages
client = {T}Client("{v}")
client = {T}({ apiKey: '{v}' })
{t}.api_key = '{v}'
{T}.configure { |c| c.api_key = '{v}' }
const {t} = require('{t}')('{v}');
{t}.init('{v}')
{t} login --token {v}
{t} auth {v}
{t} config set token {v}
https://api.{t}.com/v1/{v}/data
wget 'https://{t}.io/api/v1?token={v}'
curl -X POST https://{t}.com/oauth/token -d client_secret={v} -d client_id=1
curl -d 'api_token={v}' https://{t}.com/1/push
http https://api.{t}.com X-Api-Key:{v}
{"api_key": "{v}"}
-d '{"apiKey":"{v}","from":"EUR"}'
?user=me&auth={v}
https://{t}.com/feed?private_token={v}
https://hooks.{t}.com/services/{v}
https://{v}@sentry.{t}.io/42
new {T}('{v}')
let client = {T}::new("{v}");
client := {t}.NewClient("{v}")
{T}(token="{v}")
{T}(api_key='{v}', timeout=3)
var api = new {T}Api("my-account", "{v}");
$client = new {T}('{v}');
{t}_setup(key = "{v}")
{T}.setApiKey("{v}");
{T}.initialize(this, "{v}")
<script src="https://cdn.{t}.com/a.js?key={v}"></script>
subscription_key={v}
https://api.{t}.com/webhook/{v}
wss://stream.{t}.com?token={v}
--{t}-key {v}
--api-key={v}
--access-token {v}
{t}-cli -k {v} list
{t}-cli --key {v} list
https://user:{v}@api.{t}.com/
client = {t}.Client("ACdemo", "{v}")
{t}.auth('{v}')
{t}.setToken('{v}')
Api_{t}::authenticate('{v}');
# {t} key: {v}
The {T} API key {v} was created
Your {T} token: {v}
{T} key¶{v}
{T} | {v}
https://{t}.com/api/{v}/send
https://maker.{t}.com/trigger/go/with/key/{v}
https://api.{t}.com/bot{v}/getMe
""".strip().split("\n")
_OUTPUTS = r"""
{"Name":"web","Env":["PATH=/usr/bin","DB_PASSWORD={p}"]}
                "POSTGRES_PASSWORD={p}",
      DB_PASSWORD:  {p}
      DB_PASSWORD:        {p}
- name: DB_PASSWORD¶  value: "{p}"
        - name: API_TOKEN¶          value: {v}
{"name": "DB_PASSWORD", "value": "{p}"}
{"name": "ApiKey", "slotSetting": false, "value": "{v}"}
{"key":"token","value":"{v}","type":"string"}
{"name":"Authorization","value":"Bearer {v}"}
{"name":"Cookie","value":"sid={v}"}
ParameterKey=DBPassword,ParameterValue={p}
{"ParameterKey": "DbPassword", "ParameterValue": "{p}"}
"Name": "/prod/db/password",¶        "Type": "SecureString",¶        "Value": "{p}",
"SecretString": "{\"username\":\"app\",\"password\":\"{p}\"}",
  + password             = "{p}"
  ~ password             = "old{p}" -> "{p}"
  password = "{p}" # forces replacement
db_password = "{p}"
output "db_password" {¶  value = "{p}"¶}
"admin_password": {¶    "sensitive": true,¶    "type": "string",¶    "value": "{p}"¶  }
machine api.example.com¶  login me¶  password {p}
machine api.example.com login me password {p}
default login anonymous password {p}
db.example.com:5432:app:me:{p}
//registry.npmjs.org/:_authToken={v}
//npm.example.com/:_password={b}
_auth={b}
index-url = https://me:{p}@pypi.example.com/simple
extra-index-url = https://__token__:{v}@pypi.example.com/simple
[pypi]¶username = __token__¶password = {v}
npmAuthToken: "{v}"
:rubygems_api_key: {v}
{"http-basic": {"repo.example.com": {"username": "me", "password": "{p}"}}}
{"github-oauth": {"github.com": "{v}"}}
[registry]¶token = "{v}"
{"auths": {"registry.example.com": {"auth": "{b}"}}}
[default]¶aws_access_key_id = AKIAQ3EGRWT5YHJK2LMN¶aws_secret_access_key = {s40}
   "SecretAccessKey": "{s40}",
ACCESSKEY	AKIAQ3EGRWT5YHJK2LMN	2024-05-06T07:08:09Z	{s40}	Active	ci
secret_key     ****************{p}    shared-credentials-file
access_key = AKIAQ3EGRWT5YHJK2LMN¶secret_key = {s40}
requirepass {p}
masterauth {p}
default_pass = {p}
primary_conninfo = 'host=db user=rep password={p} port=5432'
bindpw {p}
ldap_default_authtok = {p}
olcRootPW: {p}
network={¶  ssid="home"¶  psk="{p}"¶}
802-11-wireless-security.psk:           {p}
psk={p}
wpa_passphrase={p}
vpn.example.com : PSK "{p}"
carol : EAP "{p}"
PrivateKey = {b44}
PresharedKey = {b44}
client lan {¶  ipaddr = 10.0.0.0/8¶  secret = {p}¶}
username admin password 0 {p}
enable password {p}
snmp-server community {p} RO
rocommunity {p} default
[smtp.example.com]:587 me@example.com:{p}
set imap_pass="{p}"
set smtp_pass = "{p}"
poll mail.example.com user "me" password "{p}"
send "{p}\r"
expect "assword:" ; send "{p}\n"
web1 ansible_host=10.0.0.1 ansible_ssh_pass={p}
ansible_become_pass: {p}
"msg": "password is {p}"
define('DB_PASSWORD', '{p}');
define( 'AUTH_KEY', '{v}' );
'password' => '{p}',
:password => "{p}"
password: '{p}',
spring.datasource.password={p}
<password>{p}</password>
<add key="ApiKey" value="{v}"/>
<add key="ClearTextPassword" value="{p}" />
<entry key="db.password">{p}</entry>
<property name="password" value="{p}"/>
<key>ApiToken</key>¶	<string>{v}</string>
<key>Password</key><string>{p}</string>
<string name="api_key">{v}</string>
<name>fs.s3a.secret.key</name>¶    <value>{s40}</value>
<name>javax.jdo.option.ConnectionPassword</name><value>{p}</value>
<machineKey validationKey="{h64}" decryptionKey="{h64}" />
<apiToken>{v}</apiToken>
<secret>{v}</secret>
Authentication: Bearer {v}
> Authorization: Basic {b}
> Authorization: Bearer {v}
< Set-Cookie: session={v}; Path=/; HttpOnly
< set-cookie: __Host-auth={v}; Secure
> Cookie: connect.sid=s%3A{v}; theme=dark
* Server auth using Basic with user 'me'¶> GET / HTTP/1.1¶> X-Api-Key: {v}
origin	https://oauth2:{v}@gitlab.example.com/me/app.git (fetch)
origin	https://{v}@github.example.com/me/app.git (push)
origin  https://me:{p}@git.example.com/app.git (fetch)
git clone https://x-access-token:{v}@github.example.com/me/app
postgresql://me:{p}@db.example.com:5432/app?sslmode=require
psql "host=db user=me password={p} dbname=app"
psql 'postgres://me:{p}@db/app' -c 'select 1'
mysql://root:{p}@tcp(127.0.0.1:3306)/app
root:{p}@tcp(db:3306)/app?parseTime=true
jdbc:postgresql://db:5432/app?user=me&password={p}
jdbc:oracle:thin:scott/{p}@//db:1521/XE
jdbc:sqlserver://db:1433;databaseName=app;user=sa;password={p};encrypt=true
Driver={ODBC Driver 18};Server=db;Database=app;Uid=sa;Pwd={p};
Server=db;Database=app;User Id=sa;Password={p};
DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={b88};EndpointSuffix=core.windows.net
Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={b44}
sqlplus scott/{p}@db
expdp system/{p}@orcl full=y
lftp -u me,{p} ftp.example.com
mount -t cifs //nas/share /mnt -o username=me,password={p}
cmdkey /add:nas /user:me /pass:{p}
$password = "{p}"
$cred = New-Object PSCredential("me", (ConvertTo-SecureString "{p}" -AsPlainText -Force))
Connect-Thing -UserName me -Password {p}
az login -u me@example.com -p {p}
az login --service-principal -u 11111111-2222-3333-4444-555555555555 -p {v} --tenant x
  "password": "{p}",¶  "tenant": "11111111-2222-3333-4444-555555555555"
"clientSecret": "{v}",
    token: {v}
    client-key-data: {b88}
kubeadm join 10.0.0.1:6443 --token {kube} --discovery-token-ca-cert-hash sha256:{h64}
docker swarm join --token SWMTKN-1-{l49}-{l25} 10.0.0.1:2377
SecretID:         {u}
Secret ID    = {u}
Unseal Key 1: {b44}
Initial Root Token: s.{a24}
token                {v}
Key                Value¶---                -----¶password           {p}
rabbitmqctl add_user app {p}
redis-cli> AUTH {p}
AUTH default {p}
1339518083.107412 [0 127.0.0.1:60866] "AUTH" "{p}"
CONFIG SET requirepass {p}
db.auth("me", "{p}")
db.createUser({user: "me", pwd: "{p}", roles: []})
CREATE USER 'me'@'%' IDENTIFIED BY '{p}';
ALTER USER me WITH PASSWORD '{p}';
SET PASSWORD FOR 'me'@'%' = PASSWORD('{p}');
CREATE LOGIN me WITH PASSWORD = '{p}';
EXEC sp_addlogin 'me', '{p}'
INSERT INTO users (name, password) VALUES ('me', '{p}');
UPDATE users SET password='{p}' WHERE id=1;
twine upload -u __token__ -p {v} dist/*
npm config set //registry.npmjs.org/:_authToken {v}
npm config set //registry.npmjs.org/:_authToken={v}
poetry config pypi-token.pypi {v}
poetry config http-basic.acme me {p}
pip config set global.index-url https://me:{p}@pypi.example.com/simple
composer config http-basic.repo.example.com me {p}
dotnet nuget push a.nupkg -k {v} -s https://nuget.example.com
dotnet nuget add source https://n.example.com -u me -p {p}
nuget setapikey {v} -source https://n.example.com
helm install app ./chart --set auth.password={p}
helm repo add acme https://c.example.com --username me --password {p}
kubectl create secret generic db --from-literal=password={p}
docker run -e POSTGRES_PASSWORD={p} postgres:16
docker build --build-arg NPM_TOKEN={v} .
heroku config:set API_KEY={v}
API_KEY:      {v}
flyctl secrets set DATABASE_PASSWORD={p}
vercel env add TOKEN <<< {v}
firebase login:ci --token "{v}"
gh auth login --with-token <<< "{v}"
gh secret set API_KEY -b"{v}"
circleci setup --token {v}
echo "{p}" | passwd --stdin me
echo "me:{p}" | chpasswd
sudo useradd -p '{p}' me
ssh-keygen -t ed25519 -N "{p}" -f id
gpg --batch --passphrase {p} -d a.gpg
openssl enc -aes-256-cbc -k {p} -in a
openssl enc -aes-256-cbc -K {h64} -iv 00 -in a
7z a -p{p} a.7z b
unzip -P {p} a.zip
restic -r s3:x --password-command "echo {p}" backup
curl --user me:{p} https://a.example.com
curl -u 'me:{p}' ftp://a.example.com
curl -x http://me:{p}@proxy:3128 https://a.example.com
curl --oauth2-bearer {v} https://a.example.com
curl --proxy-user me:{p} https://a.example.com
curl -b "session={v}" https://a.example.com
wget --user=me --password={p} https://a.example.com
wget --header="Authorization: Bearer {v}" https://a.example.com
http -a me:{p} https://a.example.com
xh -A bearer -a {v} https://a.example.com
rclone config create s s3 secret_access_key {s40}
mc alias set s https://s3.example.com AKIAQ3EGRWT5YHJK2LMN {s40}
s3cmd --secret_key={s40} ls
gsutil -o Credentials:gs_secret_access_key={s40} ls
otpauth://totp/Acme:me?secret={b32}&issuer=Acme
TOTP secret: {b32}
storePassword={p}
keyPassword '{p}'
signing.password={p}
fastlane match --password {p}
secret_key_base: {h128}
SECRET_KEY = 'django-insecure-{v}'
APP_KEY=base64:{b44}
APP_SECRET={h32}
app.secret_key = b'{v}'
'crypt' => ['key' => '{h32}']
public $password = '{p}';
config :app, password: "{p}"
erl -name a -setcookie {v}
sasl.jaas.config=x.PlainLoginModule required username="me" password="{p}";
--conf spark.hadoop.fs.s3a.secret.key={s40}
AIRFLOW_CONN_DB='postgres://me:{p}@db/app'
admin_password = {p}
bearer_token: {v}
routing_key: {h32}
service_key: {h32}
influx query --token {v} 'x'
curl -u elastic:{p} https://es:9200
Password for the [elastic] user successfully reset.¶New value: {p}
The generated password for the elastic built-in superuser is : {p}
Please use the following password to proceed to installation:¶¶{h32}
A temporary password is generated for root@localhost: {p}
GENERATED ROOT PASSWORD: {p}
WordPress installed. Your password: {p}
    http://localhost:8888/?token={h48}
ngrok config add-authtoken {v}
authtoken: {v}
cloudflared tunnel run --token {v}
sudo tailscale up --authkey {v}
DD_API_KEY={h32} bash -c "$(curl -L https://i.example.com)"
https://{h32}@o123.ingest.sentry.io/456
https://{h32}:{h32}@sentry.example.com/4
https://hc-ping.com/{u}
https://discord.com/api/webhooks/123456789012345678/{a68}
https://acme.webhook.office.com/webhookb2/{u}@{u}/IncomingWebhook/{h32}/{u}
https://app.example.com/reset-password?token={v}
https://app.example.com/reset/{v}
https://app.example.com/invite/{v}
https://calendar.example.com/private-{h32}/basic.ics
https://app.example.com/callback?code={v}&state=x
https://app.example.com/#access_token={v}&token_type=bearer
{"access_token":"{v}","refresh_token":"{v}","expires_in":3600}
{"id_token": "{v}"}
{"session": "{v}", "user": 1}
{"data":{"token":"{v}"}}
{"credentials": {"key": "{v}"}}
grant_type=refresh_token&refresh_token={v}
grant_type=password&username=me&password={p}
https://s.example.com/f?X-Amz-Credential=A&X-Amz-Signature={h64}
PHPSESSID={l26}; path=/
JSESSIONID={H32}
INFO login user=me password={p} ok
DEBUG token={v} expires=3600
[auth] using key {v}
level=info msg="auth" api_key={v}
time="x" level=debug msg="Authorization: Bearer {v}"
+ export TOKEN={v}
++ API_KEY={v}
+ curl -H 'Authorization: Bearer {v}' https://a.example.com
declare -x API_KEY="{v}"
  PID USER COMMAND¶  42 me app --token={v} serve
me 42 0.0 mysqld_safe --password={p}
| api_key | {v} |
| password | {p} |
password,{p}
me;admin;{p};active password
user,password¶me,{p}
name	token¶ci	{v}
API Key ............ {v}
api key => {v}
Token → {v}
 * token: `{v}`
**Password:** {p}
**API key**: `{v}`
Secret access key: {s40}
Password . . . . : {p}
keytool -genkey -storepass {p} -keypass {p}
jarsigner -storepass {p} a.jar k
mongo --username me --password {p} db
mongosh "mongodb+srv://me:{p}@c.example.net/app"
amqps://me:{p}@mq.example.com/v
smtp://me:{p}@mail.example.com:587
nats://{v}@nats.example.com:4222
redis://default:{p}@r.example.com:6379
pass insert -e acme <<< {p}
security add-generic-password -a me -s acme -w {p}
password: "{p}"¶class: "genp"
secret-tool lookup a b¶{p}
git credential fill¶protocol=https¶host=github.example.com¶username=me¶password={p}
op://vault/item password {p}
bw unlock {p}
export BW_SESSION="{b88}"
vault login {v}
vault kv put secret/app password={p}
consul kv put app/token {v}
etcdctl --user root:{p} get x
etcdctl put /app/password {p}
aws ssm put-parameter --name /app/password --type SecureString --value {p}
aws secretsmanager create-secret --name db/password --secret-string {p}
gcloud sql users set-password me --password={p}
az keyvault secret set --vault-name v --name db-password --value {p}
az sql server create --admin-user me --admin-password {p}
doctl auth init -t {v}
linode-cli --token {v} list
hcloud context create x # token {v}
pulumi config set --secret dbPassword {p}
snow connection add --password {p}
sshpass -p{p} ssh me@h
plink -pw {p} me@h
xfreerdp /u:me /p:{p} /v:h
rdesktop -u me -p {p} h
smbclient //h/s -U me%{p}
ldapsearch -D cn=admin -w {p} -b dc=x
kinit me <<< {p}
ipmitool -H h -U admin -P {p} power on
snmpget -v3 -u me -A {p} -X {p} h
nmcli dev wifi connect home password {p}
iwconfig wlan0 key s:{p}
mosquitto_pub -u me -P {p} -t x
psql: PGPASSWORD={p}
createuser --pwprompt¶Enter password: {p}
Enter passphrase: {p}
Login: me¶Password: {p}
username: me¶password: {p}
user me¶pass {p}
USER me¶PASS {p}
331 Password required¶PASS {p}
AUTH PLAIN {b}
AUTH LOGIN¶{b}
a1 LOGIN me {p}
NICKSERV IDENTIFY {p}
:me!x PRIVMSG NickServ :IDENTIFY {p}
""".strip().split("\n")
_SENTENCES = r"""
the password is {p}
the password for the database is {p}
my password: {p}
password = {p}
my key: {v}
my api key is {v}
here's my API key: {v}
here is the token: {v}
use {v} as the token
use the key {v}
use token {v} for that
use "{p}" as password
log in with admin / {p}
login with user admin and password {p}
credentials: admin/{p}
creds are me:{p}
I set the password to {p}
set the root password to {p}
the password was changed to {p}
change the password to {p}
the new password should be {p}
you can log in as ada with {p}
the wifi password is {p}
try {p} as the password
our staging token ({v}) expires tomorrow
the token ({v}) does not work
the secret's value is {v}
my token's {v}
the key you need is {v}
authenticate with {v}
auth with key {v}
paste this key: {v}
add this token to the env: {v}
the admin account has password {p}
pass: {p}
pw is {p}
pwd {p}
passwd is {p}
passphrase: {p}
the passphrase is "{p}"
PIN/secret for it: {v}
API key → {v}
API key - {v}
token is now {v}
i got this key {v} from them
my openai key {v}
export it, it's {v}, as API_KEY
password {p} doesn't work
with the password {p} it fails
username ada, password {p}
user: ada pass: {p}
the access code is {p}
Das Passwort ist {p}
Das Passwort lautet: {p}
Das Passwort für die Datenbank ist {p}
mein Passwort: {p}
nimm {v} als Token
benutze den Schlüssel {v}
verwende das Passwort {p}
der API-Schlüssel ist {v}
Der Schlüssel lautet {v}
Zugangsdaten: admin / {p}
das Token heißt {v}
Kennwort {p}
le mot de passe est {p}
mot de passe : {p}
la clé API est {v}
utilise le jeton {v}
la contraseña es {p}
usa el token {v}
la clave es {v}
clave: {p}
la password è {p}
la chiave è {v}
a senha é {p}
a chave é {v}
het wachtwoord is {p}
hasło to {p}
пароль {p}
пароль: {p}
ключ: {v}
密码是 {p}
令牌是{v}
パスワードは {p} です
APIキーは {v}
비밀번호는 {p}
토큰: {v}
""".strip().split("\n")


def samples(seed: int = 5) -> Iterator[Placed]:
    rng = random.Random(seed)
    for name in NAMES:
        for form in _VARIABLES:
            yield _fill("variable", form, rng, name)
    for form in _HEADERS:
        for around in _WITH_HEADER:
            name, _, value = form.partition(": ")
            if '"{hv}"' in around:
                value = value.replace('"', '\\"')
            whole = around.replace("{h}", form).replace("{hn}", name).replace("{hv}", value)
            yield _fill("header", whole, rng)
    for group, forms in (("manual", _MANUALS), ("output", _OUTPUTS), ("sentence", _SENTENCES)):
        for form in forms:
            for _ in range(_EACH):
                yield _fill(group, form, rng)


def _fill(group: str, form: str, rng: random.Random, name: str = "") -> Placed:
    vendor = "".join(rng.choices(_SYLLABLES, k=3))
    first, *others = name.lower().split("_")
    names = {
        "{V}": vendor.upper(),
        "{t}": vendor,
        "{T}": vendor.title(),
        "{N}": name,
        "{n}": name.lower(),
        "{k}": name.lower().replace("_", "-"),
        "{c}": first + "".join(map(str.title, others)),
    }
    text = form.replace("¶", "\n")
    for mark, instead in names.items():
        text = text.replace(mark, instead)
    values: dict[str, str] = {}
    for kind in _VALUE.findall(text):
        values.setdefault(kind, _VALUES[kind](rng))
    secret = next((values[kind] for kind in ("p", "v") if kind in values), "")
    text = _VALUE.sub(lambda match: values[match[1]], text)
    return Placed(group, form, text, secret or list(values.values())[-1])
