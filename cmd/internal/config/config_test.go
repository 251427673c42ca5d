package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
)

// loadConfig reads a configuration as "freshet config print" would.
func loadConfig(t *testing.T, yaml string, env map[string]string, flags ...string) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "freshet.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	var s Flags
	c := &cobra.Command{}
	s.Register(c)
	if err := c.ParseFlags(append([]string{"--config", file}, flags...)); err != nil {
		t.Fatal(err)
	}
	return s.Load(&cli.Env{Getenv: func(k string) string { return env[k] }})
}

const wholeFile = `
listen: 127.0.0.1:9999
public_url: https://freshet.example.org/
data: /var/lib/freshet
contact: mailto:ops@example.org
default_endpoint: city
tokens:
  - {name: ops, role: admin, sha256: "` + "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef" + `"}
origins: ["https://app.example.org"]
endpoints:
  - name: city
    url: http://127.0.0.1:3030/sparql
    slot: "@every 10s"
    budget: 5s
    policy: rr
    rule: strict
    fallback_policy: rr
    profile_share: 0.25
    merge: off
    timeout_param: timeout
    allow_service: true
    own_services: ["wikibase:label"]
    allow_public: true
    concurrency: 2
    timeout: 20s
    min_gap: 100ms
    blackout: [{start: "0 2 * * *", for: 1h}]
    max_rows: 10000
    max_bytes: 16MiB
    default_graph_uri: ["http://g.example/"]
    headers: {X-Key: abc}
    auth: {basic: {username: u, password_file: /run/secret}}
retention: {changes: 500, age: 24h, bytes: 10MiB}
limits: {queries: 100, body: 64KiB, connections: 50, change: 1MiB, reserve: 1GiB, token_queries: 1, token_bytes: 2MiB, ` +
	`token_profiles: 3, token_rate: 4, address_connections: 5, rules: 6, token_rules: 7, rule_rows: 8, rule_receivers: 9, ` +
	`token_receivers: 10, token_webhooks: 11}
websub: {allow_callback_networks: ["127.0.0.0/8"]}
log: {level: debug, format: json}
`

func TestConfigFile(t *testing.T) {
	c, err := loadConfig(t, wholeFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := registry.Endpoint{
		Name: "city", URL: "http://127.0.0.1:3030/sparql", Slot: "@every 10s", Budget: registry.Duration(5 * time.Second), Policy: "rr",
		Rule: "strict", FallbackPolicy: "rr", ProfileShare: 0.25, Merge: "off", TimeoutParam: "timeout", AllowService: true,
		OwnServices: []string{"wikibase:label"}, AllowPublic: true, Concurrency: 2,
		Timeout: registry.Duration(20 * time.Second), MinGap: registry.Duration(100 * time.Millisecond),
		Blackout: []registry.Blackout{{Start: "0 2 * * *", For: registry.Duration(time.Hour)}}, MaxRows: 10000, MaxBytes: 16 << 20,
		DefaultGraphURI: []string{"http://g.example/"}, Headers: map[string]string{"X-Key": "abc"},
		Auth: registry.Auth{Basic: &registry.Password{Username: "u", PasswordFile: "/run/secret"}},
	}
	if d := cmp.Diff(want, c.Endpoints[0]); d != "" {
		t.Errorf("endpoint (-want +got):\n%s", d)
	}
	if c.PublicURL != "https://freshet.example.org" {
		t.Errorf("public_url is %q, the slash at its end should be gone", c.PublicURL)
	}
	if got := c.Tokens[0].SHA256; got != strings.ToLower(got) {
		t.Errorf("the hash of a token is kept as %q, want lower case", got)
	}
	if c.Retention != (Retention{500, registry.Duration(24 * time.Hour), 10 << 20}) ||
		c.Limits != (Limits{Queries: 100, Body: 64 << 10, Connections: 50, Change: 1 << 20, Reserve: 1 << 30,
			TokenQueries: 1, TokenBytes: 2 << 20, TokenProfiles: 3, TokenRate: 4, AddressConnections: 5, Rules: 6, TokenRules: 7,
			RuleRows: 8, RuleReceivers: 9, TokenReceivers: 10, TokenWebhooks: 11}) {
		t.Errorf("retention %v, limits %v", c.Retention, c.Limits)
	}
}

// The later source wins: default, file, environment, flag.
func TestConfigPrecedence(t *testing.T) {
	file, env := "listen: 127.0.0.1:1111\n", map[string]string{"FRESHET_LISTEN": "127.0.0.1:2222"}
	for _, x := range []struct {
		name  string
		yaml  string
		env   map[string]string
		flags []string
		want  string
	}{
		{"default", "", nil, nil, "127.0.0.1:8080"},
		{"file over default", file, nil, nil, "127.0.0.1:1111"},
		{"environment over file", file, env, nil, "127.0.0.1:2222"},
		{"flag over environment", file, env, []string{"--listen", "127.0.0.1:3333"}, "127.0.0.1:3333"},
	} {
		c, err := loadConfig(t, x.yaml, x.env, x.flags...)
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
		} else if c.Listen != x.want {
			t.Errorf("%s: listen is %s, want %s", x.name, c.Listen, x.want)
		}
	}
}

// Each flag wins over its variable, and that over the file's key.
func TestConfigPrecedenceOfAll(t *testing.T) {
	for flag, values := range map[string][3]string{
		"listen": {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, "public-url": {"http://a.example", "http://b.example", "http://c.example"},
		"data": {"/a", "/b", "/c"}, "contact": {"mailto:a@x.example", "mailto:b@x.example", "mailto:c@x.example"},
		"log-level": {"debug", "warn", "error"}, "log-format": {"text", "json", "auto"},
	} {
		key := strings.Replace(strings.Replace(flag, "log-", "log.", 1), "-", "_", 1)
		file := key + ": " + values[0] + "\n"
		if _, member, ok := strings.Cut(key, "."); ok {
			file = "log: {" + member + ": " + values[0] + "}\n"
		}
		env := map[string]string{Variable(key): values[1]}
		for i, load := range []func() (*Config, error){
			func() (*Config, error) { return loadConfig(t, file, nil) },
			func() (*Config, error) { return loadConfig(t, file, env) },
			func() (*Config, error) { return loadConfig(t, file, env, "--"+flag, values[2]) },
		} {
			c, err := load()
			if err != nil {
				t.Fatalf("%s: %v", flag, err)
			}
			from := [3]string{fromFile, fromEnv, FromFlag}[i]
			if got := shownAs(c, key); got != values[i]+" | "+from {
				t.Errorf("%s is %q, want %s from %s", key, got, values[i], from)
			}
		}
	}
	if c, err := loadConfig(t, "\ufeffcontact: mailto:a@x.example\n", nil); err != nil ||
		shownAs(c, "contact") != "mailto:a@x.example | "+fromFile {
		t.Errorf("after a byte order mark: %v", err)
	}
	c, err := loadConfig(t, "endpoints: [{name: a, url: http://127.0.0.1:1/, budget: 3s}]\n", nil, "--endpoint",
		"a=http://127.0.0.1:2/", "--endpoint", "b=http://127.0.0.1:3/")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Endpoints) != 2 || c.Endpoints[0].URL != "http://127.0.0.1:2/" || c.Endpoints[0].Budget.String() != "3s" ||
		c.Endpoints[1].Name != "b" {
		t.Errorf("endpoints of file and flags: %+v", c.Endpoints)
	}
}

// shownAs is what the page of settings says of a key.
func shownAs(c *Config, key string) string {
	for _, s := range c.Shown() {
		if s.Key == key {
			return s.Value + " | " + s.From
		}
	}
	return ""
}

// A wrong file is refused with a message that names the place.
func TestConfigErrors(t *testing.T) {
	for _, x := range []struct{ name, yaml, want string }{
		{"unknown key", "listen: 127.0.0.1:1\nlissten: x\n", "[2:1]"},
		{"unknown key of an endpoint", "endpoints:\n  - name: a\n    url: http://127.0.0.1/\n    slots: x\n", "[4:5]"},
		{"bare number for a duration", "endpoints:\n  - {name: a, url: http://127.0.0.1/, budget: 10}\n", "line 2: \"10\" is not a duration"},
		{"no budget", "endpoints:\n  - {name: a, url: http://127.0.0.1/}\n  - {name: b, url: http://127.0.0.1/, budget: 0s}\n",
			"endpoints[1] (b): "},
		{"fraction", "limits: {token_rate: 0.5}\n", "line 1: \"0.5\" is not a whole number"},
		{"fraction of an endpoint", "endpoints:\n  - {name: a, url: http://127.0.0.1/, budget: 1s, concurrency: 1.5}\n",
			"line 2: \"1.5\" is not a whole number"},
		{"bad size", "limits: {body: lots}\n", "line 1: \"lots\" is not a size"},
		{"no port", "listen: localhost\n", "host:port"},
		{"name with a NUL", "tokens: [{name: \"a\\0b\", role: app, sha256: \"" + strings.Repeat("a", 64) + "\"}]\n", "tokens[0].name"},
		{"endless name", "tokens: [{name: " + strings.Repeat("a", 65) + ", role: app, sha256: \"" + strings.Repeat("a", 64) + "\"}]\n",
			"tokens[0].name"},
		{"no name", "tokens: [{role: app, sha256: \"" + strings.Repeat("a", 64) + "\"}]\n", "tokens[0].name"},
		{"bad role", "tokens: [{name: a, role: root, sha256: \"" + strings.Repeat("a", 64) + "\"}]\n", "tokens[0].role"},
		{"short hash", "tokens: [{name: a, role: app, sha256: abc}]\n", "tokens[0].sha256"},
		{"two endpoints of one name", "endpoints:\n  - {name: a, url: http://127.0.0.1/}\n  - {name: a, url: http://127.0.0.2/}\n",
			"endpoints[1]"},
		{"public endpoint without contact", "endpoints: [{name: w, url: https://query.wikidata.org/sparql}]\n", "contact"},
		{"bad network", "websub: {allow_callback_networks: [everywhere]}\n", "allow_callback_networks[0]"},
		{"mail server without a port", "mail: {server: mail.example.org, from: a@example.org, recipients: [example.org]}\n", "mail.server"},
		{"mail server with the name of a port", "mail: {server: \"mail.example.org:smtp\", from: a@example.org, recipients: " +
			"[example.org]}\n", "mail.server"},
		{"mail server without a host", "mail: {server: \":25\", from: a@example.org, recipients: [example.org]}\n", "mail.server"},
		{"mail without a sender", "mail: {server: \"127.0.0.1:25\", recipients: [example.org]}\n", "mail.from"},
		{"mail without recipients", "mail: {server: \"127.0.0.1:25\", from: a@example.org}\n", "mail.recipients"},
		{"unknown security of mail", "mail: {server: \"127.0.0.1:25\", from: a@example.org, recipients: [example.org], " +
			"security: ssl}\n", "mail.security"},
		{"mail with half a sign-in", "mail: {server: \"127.0.0.1:25\", from: a@example.org, recipients: [example.org], username: u}\n",
			"password_file"},
		{"mail without its password", "mail: {server: \"127.0.0.1:25\", from: a@example.org, recipients: [example.org], username: " +
			"u, password_file: /nowhere/p}\n", "mail.password_file"},
		{"public URL with a query", "public_url: http://a.example/?x=1\n", "public_url"},
		{"public URL with a path", "public_url: http://a.example/freshet/\n", "a path"},
		{"no network", "proxies: {networks: [10.0.0.1]}\n", "proxies.networks[0]"},
		{"another header", "proxies: {header: Via}\n", "proxies.header"},
		{"every origin", "origins: [https://a.example, \"*\"]\n", "origins[1]"},
		{"origins by pattern", "origins: [\"https://*.example\"]\n", "origins[0]"},
		{"origin without a scheme", "origins: [app.example]\n", "origins[0]"},
		{"origin with a path", "origins: [https://a.example/app]\n", "origins[0]"},
		{"tiny bodies", "limits: {body: 100B}\n", "limits.body"},
		{"less than none", "limits: {connections: -1}\n", "limits"},
		{"less than no queries", "limits: {queries: -1}\n", "limits"},
		{"bad level", "log: {level: loud}\n", "log.level"},
		{"misspelt key", "listen: 127.0.0.1:1\ndatta: x\n", `did you mean "data"?`},
		{"key of another place", "token: x\n", "at this place: it belongs to endpoints.auth.bearer"},
		{"misspelt key of an endpoint", "endpoints:\n  - name: a\n    url: http://127.0.0.1/\n    bugdet: 1s\n", `did you mean "budget"?`},
		{"a key like no other", "colour: red\n", "config print"},
		{"text for a number", "endpoints:\n  - name: a\n    url: http://127.0.0.1/\n    concurrency: many\n",
			"line 4: \"many\" is not a whole number"},
		{"two documents", "listen: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2\n", "second document"},
		{"no directory", "data: \"\"\n", "data:"},
		{"no such port", "listen: 127.0.0.1:99999\n", "port"},
		{"contact on two lines", "contact: \"a\\nb\"\n", "contact:"},
		{"certificate without key", "tls: {cert: a.pem}\n", "tls:"},
		{"no such certificate", "tls: {cert: /nonexistent.pem, key: /nonexistent.key}\n", "/nonexistent.pem"},
	} {
		_, err := loadConfig(t, x.yaml, nil)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: error %v, want one with %q", x.name, err, x.want)
		}
		if cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%s: exit code %d, want %d", x.name, cli.ExitCode(err), cli.ExitUsage)
		}
	}
}

// What says nothing leaves the defaults: no text, comments alone, keys without
// a value.
func TestConfigSaysNothing(t *testing.T) {
	for _, text := range []string{"", "\n", "# listen: 127.0.0.1:1\n", "---\n# none\n", "{}\n", "listen:\ndata:\nretention:\nendpoints:\n"} {
		c, err := loadConfig(t, text, nil)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		want := Default()
		want.PublicURL = "http://127.0.0.1:8080"
		if got := c.String(); got != want.String() {
			t.Errorf("%q is\n%s\nwant the defaults", text, got)
		}
	}
}

// Every value but lists with names, such as those of endpoints and tokens, can be set by a variable.
func TestConfigEnvironment(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of more than 16 characters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{
		"listen": "127.0.0.1:7", "public_url": "https://x.example", "data": "/d", "contact": "mailto:a@x.example", "default_endpoint": "e",
		"proxies.networks": "10.0.0.0/8", "proxies.header": "Forwarded",
		"origins": "https://a.example", "retention.changes": "5", "retention.age": "1h0m0s", "retention.bytes": "1MiB",
		"limits.queries": "6", "limits.body": "2MiB", "limits.connections": "7", "limits.change": "3MiB", "limits.reserve": "4MiB",
		"limits.token_queries": "8", "limits.token_bytes": "5MiB", "limits.token_profiles": "9", "limits.token_rate": "10",
		"limits.address_connections": "11", "limits.rules": "12", "limits.token_rules": "13", "limits.rule_rows": "14",
		"limits.rule_receivers": "15", "limits.token_receivers": "16", "limits.token_webhooks": "17",
		"websub.allow_callback_networks": "10.0.0.0/8", "log.level": "warn", "log.format": "json",
		"mail.server": "127.0.0.1:25", "mail.from": "a@x.example", "mail.username": "u", "mail.password_file": password,
		"mail.security": "tls", "mail.recipients": "x.example", "mail.visitors": "18",
		"cluster.name": "c", "cluster.node": "n1", "cluster.listen": "127.0.0.1:7001", "cluster.clients": "127.0.0.1:7002",
		"cluster.journal":  "nats://127.0.0.1:4222",
		"cluster.replicas": "1", "cluster.token_file": secret, "cluster.role": "gateway", "cluster.lease": "20s",
	}
	env := map[string]string{}
	for key, v := range values {
		env[Variable(key)] = v
	}
	c, err := loadConfig(t, "", env)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Shown() {
		if s.Key == "tokens" || s.Key == "endpoints" || s.Key == "feeds" || strings.Contains(s.Key, "tls.") ||
			s.Key == "cluster.peers" || s.Key == "cluster.api" {
			continue
		}
		if s.Value != values[s.Key] || s.From != fromEnv {
			t.Errorf("%s is %q, from %s; want %q from the environment", s.Key, s.Value, s.From, values[s.Key])
		}
		delete(values, s.Key)
	}
	if len(values) > 0 {
		t.Errorf("not shown: %v", values)
	}
	for name, bad := range map[string]string{"FRESHET_LIMITS_QUERIES": "many", "FRESHET_RETENTION_AGE": "5", "FRESHET_LIMITS_BODY": "big"} {
		if _, err := loadConfig(t, "", map[string]string{name: bad}); err == nil || !strings.Contains(err.Error(), name) ||
			cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%s=%s: %v, want an error that names it", name, bad, err)
		}
	}
}

func TestConfigSecretFromFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("s3cret-of-an-operator\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := loadConfig(t, "", map[string]string{"FRESHET_ADMIN_TOKEN_FILE": path})
	if err != nil {
		t.Fatal(err)
	}
	want := []registry.Token{{Name: "admin", Role: registry.RoleAdmin, SHA256: registry.HashSecret("s3cret-of-an-operator")}}
	if d := cmp.Diff(want, c.Tokens); d != "" {
		t.Errorf("tokens (-want +got):\n%s", d)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadConfig(t, "", map[string]string{"FRESHET_ADMIN_TOKEN_FILE": empty}); cli.ExitCode(err) != cli.ExitUsage ||
		fmt.Sprint(err) != "FRESHET_ADMIN_TOKEN_FILE: "+empty+" is empty" {
		t.Errorf("an empty file of the token: %v", err)
	}
	mail := "mail: {server: \"127.0.0.1:25\", from: a@example.org, recipients: [example.org], username: u, password_file: " + empty + "}\n"
	if _, err := loadConfig(t, mail, nil); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(fmt.Sprint(err), "is empty") {
		t.Errorf("an empty file of the password: %v", err)
	}
}

// Strangers are not served without tokens.
func TestSafeListen(t *testing.T) {
	hash := strings.Repeat("a", 64)
	for _, x := range []struct {
		listen, more string
		insecure     bool
		safe         bool
	}{
		{"127.0.0.1:8080", "", false, true},
		{"[::1]:8080", "", false, true},
		{"localhost:8080", "", false, true},
		{"0.0.0.0:8080", "", false, false},
		{":8080", "", false, false},
		{"192.168.1.4:8080", "", false, false},
		{"0.0.0.0:8080", "tokens: [{name: a, role: admin, sha256: \"" + hash + "\"}]", false, true},
		{"0.0.0.0:8080", "", true, true},
		{"127.0.0.1:8080", "public_url: https://freshet.example.org", false, false},
		{"127.0.0.1:8080", "public_url: http://192.168.1.4:8080", false, false},
		{"127.0.0.1:8080", "public_url: http://localhost.example.org", false, false},
		{"127.0.0.1:8080", "public_url: https://freshet.example.org", true, true},
		{"127.0.0.1:8080", "public_url: https://LOCALHOST/", false, true},
		{"127.0.0.1:8080", "public_url: http://[::1]:80", false, true},
		{"127.0.0.1:8080", "public_url: https://freshet.example.org\ntokens: [{name: a, role: admin, sha256: \"" + hash + "\"}]", false, true},
	} {
		c, err := loadConfig(t, "listen: \""+x.listen+"\"\n"+x.more, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Insecure = x.insecure
		if got := c.Safe() == nil; got != x.safe {
			t.Errorf("listen %s, tokens %q, insecure %v: safe %v, want %v", x.listen, x.more, x.insecure, got, x.safe)
		}
	}
}

// Secrets are not printed.
func TestConfigPrintMasks(t *testing.T) {
	c, err := loadConfig(t, strings.Replace(wholeFile, "password_file: /run/secret", "password: hunter2", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := c.String()
	for _, secret := range []string{"hunter2", "0123456789abcdef", "abc}"} {
		if strings.Contains(text, secret) {
			t.Errorf("the printed configuration shows %q:\n%s", secret, text)
		}
	}
	if !strings.Contains(text, "budget: 5s") {
		t.Errorf("the printed configuration lacks the budget:\n%s", text)
	}
}

// The example file is a good configuration and shows the defaults.
func TestExampleFile(t *testing.T) {
	b, err := os.ReadFile("../../freshet/dist/freshet.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := loadConfig(t, string(b), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	if d := cmp.Diff([]any{want.Listen, want.Data, want.Retention, want.Limits, want.Log, want.Cluster.Journal,
		want.Cluster.Replicas, want.Cluster.Role, want.Cluster.Lease}, []any{c.Listen, c.Data, c.Retention, c.Limits, c.Log,
		c.Cluster.Journal, c.Cluster.Replicas, c.Cluster.Role, c.Cluster.Lease}); d != "" {
		t.Errorf("defaults (-want +got):\n%s", d)
	}
	e := registry.Endpoint{Name: "city", URL: "http://127.0.0.1:3030/sparql"}.WithDefaults()
	got := c.Endpoints[0]
	got.Blackout, got.DefaultGraphURI, got.NamedGraphURI, got.Headers, got.OwnServices = nil, nil, nil, nil, nil // empty, as in e
	if d := cmp.Diff(e, got); d != "" {
		t.Errorf("endpoint (-want +got):\n%s", d)
	}
}

// Each printed value says where it comes from, and what is printed can be read
// again as the same configuration.
func TestConfigPrintSources(t *testing.T) {
	const file = `
listen: 127.0.0.1:9999
origins: ["https://a.example"]
tokens: [{name: ops, role: admin, sha256: "%064d"}]
endpoints:
  - {name: "true", url: "http://127.0.0.1:3030/sparql", blackout: [{start: "0 2 * * *", for: 1h}], headers: {X-Key: hush}}
  - {name: a.b, url: "http://127.0.0.1:3031/sparql", auth: {basic: {username: u, password_file: /run/secret}}, ` +
		`default_graph_uri: ["http://g/1"]}
`
	c, err := loadConfig(t, fmt.Sprintf(file, 7), map[string]string{"FRESHET_LIMITS_BODY": "2MiB"}, "--contact",
		"mailto:ops@example.org", "--endpoint", "a.b=http://127.0.0.1:3032/sparql")
	if err != nil {
		t.Fatal(err)
	}
	text := c.Printed("")
	var got []string
	for _, l := range strings.Split(text, "\n") {
		if strings.Contains(l, "  # ") {
			got = append(got, strings.TrimSpace(l))
		}
	}
	want := []string{"listen: 127.0.0.1:9999  # file", "contact: mailto:ops@example.org  # flag", "- name: ops  # file",
		"origins:  # file", "- name: \"true\"  # file",
		"url: http://127.0.0.1:3030/sparql  # file", "blackout:  # file", "X-Key: (set)  # file", "- name: a.b  # file",
		"url: http://127.0.0.1:3032/sparql  # flag",
		"default_graph_uri:  # file", "username: u  # file", "password_file: /run/secret  # secret file", "body: 2MiB  # environment"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s\n%s", d, text)
	}
	again, err := loadConfig(t, strings.Replace(text, "(set)", fmt.Sprintf("%q", strings.Repeat("ab", 32)), 1), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if again.String() != c.String() {
		t.Errorf("read again:\n%s", cmp.Diff(c.String(), again.String()))
	}
	doc, err := c.PrintedJSON()
	var whole struct{ Sources map[string]string }
	if err != nil || json.Unmarshal(doc, &whole) != nil || whole.Sources["contact"] != "flag" {
		t.Errorf("%s, %v", doc, err)
	}
}

// Durations are logged in seconds.
func TestLogHasDurationsInSeconds(t *testing.T) {
	for format, want := range map[string]string{"json": `"took_seconds":1.5,"wait_seconds":60}`, "text": "took_seconds=1.5 wait_seconds=60"} {
		var b bytes.Buffer
		log := Log{Level: "info", Format: format}.Logger(&cli.Env{Stderr: &b})
		log.Info("x", "took", 1500*time.Millisecond, slog.Any("wait", registry.Duration(time.Minute)))
		if !strings.HasSuffix(strings.TrimSpace(b.String()), want) {
			t.Errorf("%s: %s", format, b.String())
		}
	}
}
