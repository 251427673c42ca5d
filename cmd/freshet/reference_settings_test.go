package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
)

// A described setting has what its type and its default do not say. good and bad are
// values, in YAML, that are accepted and refused: the ends of its range.
type described struct {
	key, unit, values, meaning string
	good, bad                  []string
}

const count = "from 0; 0 is no limit"

var serverSettings = []described{
	{"listen", "", "`host:port`, port 0 to 65535; 0 takes a free one", "Address to serve on. Beyond loopback it needs tokens, " +
		"or the flag `--insecure`.", []string{"127.0.0.1:0", `"[::1]:65535"`}, []string{"127.0.0.1", "127.0.0.1:65536"}},
	{"public_url", "", "URL of a host, without a path", "Base of Link headers and topics. Empty: made from `listen`. Other " +
		"hosts than loopback need tokens.", []string{"https://x.example/", `""`}, []string{"ftp://x.example", "https://x.example?a",
		"https://x.example/f", "x.example"}},
	{"data", "", "not empty", "Directory of the store.", []string{"d"}, []string{`""`}},
	{"contact", "", "one line, such as `mailto:ops@example.org`", "Part of the User-Agent. Endpoints outside private networks " +
		"need it.", []string{"mailto:ops@example.org", `""`}, []string{`"a\nb"`}},
	{"default_endpoint", "", "name of an endpoint", "Endpoint of calls that name none.", []string{`""`}, nil},
	{"tokens", "", "see [Tokens](#tokens)", "Tokens that exist besides those made on the running server.", []string{"[]"},
		[]string{"[{name: a, role: boss, sha256: a}]"}},
	{"origins", "", "origins without patterns, such as `https://app.example.org`",
		"Origins of web pages that may connect, besides the server's own.", []string{`["https://app.example.org"]`},
		[]string{`["*"]`, `["https://*.example.org"]`}},
	{"proxies.networks", "", "networks such as `10.0.0.0/8`", "Networks of proxies that name the clients for which they ask. " +
		"Those on the server's machine always may.", []string{"[10.0.0.0/8]"}, []string{"[10.0.0.1]", "[0.0.0.0/0]", "['::ffff:10.0.0.0/104']"}},
	{"proxies.header", "", "`X-Forwarded-For` or `Forwarded`", "Header by which they do. They must append to it, and Freshet " +
		"looks at no other.", []string{"Forwarded"}, []string{"Via"}},
	{"tls.cert", "", "file in PEM, together with `tls.key`", "Certificate. SIGHUP reads it again.", nil, []string{"none.pem"}},
	{"tls.key", "", "file in PEM, together with `tls.cert`", "Key of the certificate.", nil, []string{"none.pem"}},
	{"endpoints", "", "see [Endpoints](#endpoints)", "Endpoints that exist besides those made on the running server.",
		[]string{"[]"}, []string{"[{name: a}]"}},
	{"feeds", "", "see [Feeds](#feeds)", "Change feeds: sources that tell what changes in the data of endpoints. Endpoints " +
		"name them.", []string{"[]"}, []string{"[{name: a, kind: kafka}]"}},
	{"retention.changes", "changes", "from 1", "Changes that are kept of each query.", []string{"1"}, []string{"0", "-1"}},
	{"retention.age", "", "from 0s; 0s is no limit", "Age of changes that are kept. One change of each query is always kept.",
		[]string{"0s", "1h"}, []string{"-1s", "1"}},
	{"retention.bytes", "bytes", count, "Size of all kept changes on the disk.", []string{"0", "1MiB"}, []string{"-1", "1MB"}},
	{"limits.queries", "queries", count, "Registered queries in total.", []string{"0"}, []string{"-1"}},
	{"limits.body", "bytes", "0 (no limit), or from 1KiB", "Body of a request.", []string{"0", "1KiB"}, []string{"1023", "-1"}},
	{"limits.connections", "connections", count, "Connected followers in total.", []string{"0"}, []string{"-1"}},
	{"limits.change", "bytes", count, "Larger changes are announced without their rows.", []string{"0"}, []string{"-1"}},
	{"limits.reserve", "bytes", "from 0", "Free space on the disk, at most a tenth of it, below which nothing new is registered.",
		[]string{"0"}, []string{"-1"}},
	{"limits.token_queries", "queries", count, "Queries of one token of the role app.", []string{"0"}, []string{"-1"}},
	{"limits.token_bytes", "bytes", count, "Size of the queries and profiles of one token, and again of the alerts of its rules.",
		[]string{"0"}, []string{"-1"}},
	{"limits.rules", "alert rules", count, "Alert rules in all.", []string{"0"}, []string{"-1"}},
	{"limits.token_rules", "alert rules", count, "Alert rules of one token, also of an admin's.", []string{"0"}, []string{"-1"}},
	{"limits.rule_rows", "rows", count, "Rows that may meet the condition of an alert rule at a time. With more, the rule is " +
		"not evaluated.", []string{"0"}, []string{"-1"}},
	{"limits.rule_receivers", "receivers", count, "Receivers of an alert rule.", []string{"0"}, []string{"-1"}},
	{"limits.token_receivers", "receivers", count, "Receivers of the alert rules of one token, also of an admin's. A webhook " +
		"with another secret is another receiver.", []string{"0"}, []string{"-1"}},
	{"limits.token_webhooks", "webhooks", count, "Webhooks of one token, also of an admin's.", []string{"0"}, []string{"-1"}},
	{"limits.token_profiles", "profiles", count, "Profiles of one token.", []string{"0"}, []string{"-1"}},
	{"limits.token_rate", "registrations per second", count, "Registrations of one token, with bursts of 20 times as many.",
		[]string{"0"}, []string{"-1"}},
	{"limits.address_connections", "connections", count, "Connected followers of one address (IPv6: of one /64). What a " +
		"WebSocket without a token follows counts, too. Loopback is not counted.", []string{"0"}, []string{"-1"}},
	{"websub.allow_callback_networks", "", "networks such as `10.0.0.0/8`",
		"Networks, besides public addresses, to which webhooks and WebSub callbacks may go.", []string{"[10.0.0.0/8]"}, []string{"[10.0.0.1]"}},
	{"mail.server", "", "`host:port`", "Mail server for alerts. Empty: no e-mail.", []string{`""`}, []string{"mail.example.org"}},
	{"mail.from", "", "address", "Sender of alerts. Required with `mail.server`.", []string{"a@example.org"}, nil},
	{"mail.username", "", "text, together with `mail.password_file`", "User at the mail server.", []string{`""`}, nil},
	{"mail.password_file", "", "file, together with `mail.username`", "File with the password.", []string{`""`}, nil},
	{"mail.security", "", "`starttls`, `tls` or `none`", "How the connection is encrypted.", []string{"starttls", "tls", "none"}, nil},
	{"mail.recipients", "", "addresses and domains", "Recipients that rules may name. Required with `mail.server`.",
		[]string{"[example.org]"}, nil},
	{"mail.visitors", "subscriptions", "from 0", "Visitors who get the changes of public queries by e-mail after they have " +
		"confirmed their address. 0: none.", []string{"0"}, []string{"-1"}},
	{"log.level", "", "`debug`, `info`, `warn` or `error`", "Least level of what is logged, to standard error.",
		[]string{"debug", "info", "warn", "error"}, []string{"all"}},
	{"log.format", "", "`auto`, `text` or `json`", "auto is text on a terminal and JSON elsewhere.",
		[]string{"auto", "text", "json"}, []string{"xml"}},
	{"cluster.name", "", "1 to 32 letters, digits, hyphens and underscores",
		"Name of the cluster, the same on all its nodes. Empty: this server is alone.", []string{`""`}, []string{"c"}},
	{"cluster.node", "", "1 to 32 letters, digits, hyphens and underscores", "Name of this node, unique in the cluster.",
		[]string{`""`}, []string{"n1"}},
	{"cluster.listen", "", "`host:port`", "Where this node's part of an embedded journal listens for the other members.", nil, nil},
	{"cluster.peers", "", "1, 3 or 5 nodes with `host:port`", "Members of an embedded journal and the addresses at which they " +
		"reach each other, the same on all.", []string{"{}"}, []string{`{n1: "127.0.0.1:1"}`}},
	{"cluster.clients", "", "`host:port`", "Where this node's part of an embedded journal listens for gateways. Empty: it does not.",
		nil, nil},
	{"cluster.api", "", "nodes with URLs", "Where nodes reach each other's API. Without an entry: `public_url` of the node.",
		[]string{"{}"}, nil},
	{"cluster.journal", "", "`embedded`, `nats://…` or `postgres://…`",
		"The journal: in the members themselves, on NATS servers, or in PostgreSQL.", []string{"embedded"}, nil},
	{"cluster.replicas", "copies", "from 1 to 5", "Copies of the journal on external NATS servers: 1 on a server without a cluster.",
		[]string{"1", "5"}, nil},
	{"cluster.token_file", "", "file with at least 16 characters", "Secret that the members of the journal share. Required " +
		"with an embedded one.", []string{`""`}, []string{"none"}},
	{"cluster.role", "", "`worker` or `gateway`", "A gateway serves clients and owns no endpoint.", []string{"worker", "gateway"}, nil},
	{"cluster.lease", "", "from 3s", "How long a node that sends no heartbeat keeps its endpoints.", []string{"3s"}, nil},
	{"cluster.tls.cert", "", "file in PEM, together with the other two",
		"Certificate of this node for its connections to other members. It must serve as that of a server and of a client.", nil, nil},
	{"cluster.tls.key", "", "file in PEM, together with the other two", "Key of the certificate.", nil, nil},
	{"cluster.tls.ca", "", "file in PEM, together with the other two", "Certificates of the authorities that sign those of members.",
		nil, nil},
}

var tokenSettings = []described{
	{"name", "", "1 to 64 letters, digits, dots, underscores and hyphens; not `anonymous`",
		"What the token's holder makes belongs to this name.", nil, nil},
	{"role", "", "`read`, `app` or `admin`", "read: read everything. app: also register. admin: everything.", nil, nil},
	{"sha256", "", "64 hexadecimal digits", "Hash of the secret, as `freshet token add --local NAME` prints it.", nil, nil},
	{"expires_at", "", "time", "When the token ends. Missing: never.", nil, nil},
}

var endpointSettings = []described{
	{"name", "", "1 to 64 letters, digits, dots, underscores and hyphens; the first is a letter or digit",
		"Name in addresses. It cannot change. Required.", []string{"a.B_1-"}, []string{`""`, ".a", "a b", strings.Repeat("a", 65)}},
	{"url", "", "absolute http or https URL without fragment and credentials", "Where queries are sent. Required.",
		[]string{"https://127.0.0.1:65535/s"}, []string{`""`, "ftp://127.0.0.1/", "http://127.0.0.1/#a", "http://u:p@127.0.0.1/"}},
	{"slot", "", "`@every` and a duration, a cron spec (UTC, or with `CRON_TZ=`), or `never`",
		"When slots begin. never: only on request (tick).", []string{`"@every 10s"`, `"CRON_TZ=Europe/Berlin 0 2 * * *"`, "never"},
		[]string{"often", `"@every 0s"`}},
	{"budget", "seconds of execution per slot", "above 0s, at most slot × concurrency", "Upper bound on what one slot may use.",
		[]string{"1ms", "1m"}, []string{"0s", "61s", "-1s"}},
	{"policy", "", "a policy, such as `hybrid`, `rr` or `ttl:max=32`; see [policies](policies.md)", "Order in which queries run.",
		[]string{"rr", "sjf", "ljf", "cr", "dj", "ttl:max=32", "sqrt", "wic", "sup", "fbsup", "hybrid", "sedf", "mrsf", "medf"},
		[]string{"best"}},
	{"rule", "", "`strict` or `debt`", "strict: executions are cut at the end of the budget. debt: started executions may " +
		"finish, and later slots repay the excess, at most half a budget each.", []string{"strict", "debt"}, []string{"lax", "overrun"}},
	{"fallback_policy", "", "a policy that is not for profiles", "Order of queries that no profile claims, under a policy for " +
		"profiles.", []string{"rr"}, []string{"best", "sedf"}},
	{"profile_share", "share of the budget", "above 0, at most 1", "What profiles get at most while other queries wait.",
		[]string{"0.01", "1"}, []string{"0", "1.01"}},
	{"merge", "", "`auto`, `off`, `values` or `probe`", "How queries that differ in constants only share a request. See " +
		"[merging](merging.md).", []string{"auto", "off", "values", "probe"}, []string{"on"}},
	{"shadows", "", "policies", "Policies that are simulated on the records, for comparison.", []string{"[rr]"}, []string{"[best]"}},
	{"timeout_param", "", "name of a request parameter; none of the SPARQL protocol",
		"The endpoint's own parameter for a time limit in milliseconds, such as `timeout` of Virtuoso.", []string{"timeout"}, []string{"query"}},
	{"allow_service", "", "", "Queries may call any other endpoint with SERVICE.", []string{"true"}, []string{"perhaps"}},
	{"own_services", "", "IRIs, or names with a prefix", "Services that the endpoint provides itself. Queries may call them.",
		[]string{`[wikibase:label, "http://example.org/s"]`}, []string{"[label]"}},
	{"allow_public", "", "", "Every holder of a query may publish its results, whatever earlier holders chose.", []string{"true"},
		[]string{"perhaps"}},
	{"feed", "", "name of a feed; see [Feeds](#feeds)", "The feed that tells what changes in its data. Empty: none.",
		[]string{"wikidata\ncontact: mailto:a@example.org", `""`}, []string{"unheard", "wikidata"}},
	{"position", "", "SELECT with one row and one column, or one of the names `updateStreamNextOffset`, `updatesCompleteUntil` " +
		"and `dateModified`; needs `feed`", "Up to which event its data include the feed: an xsd:integer is the number of the " +
		"next event, and before an xsd:dateTime all is included. Empty: it does not tell.",
		[]string{`"SELECT ?n { ?s ?p ?n }"` + "\n  feed: wikidata\ncontact: mailto:a@example.org",
			"dateModified\n  feed: wikidata\ncontact: mailto:a@example.org"}, []string{`"SELECT ?n { ?s ?p ?n }"`,
			`"SELECT ?s ?n { ?s ?p ?n }"` + "\n  feed: wikidata", `"ASK { ?s ?p ?o }"` + "\n  feed: wikidata"}},
	{"lag", "", "above 0s", "How long after an event its data lack it at most.", []string{"1ms", "24h"}, []string{"0s", "-1s"}},
	{"concurrency", "executions", "1 to 64", "Executions at a time.", []string{"1", "64"}, []string{"0", "65"}},
	{"timeout", "", "above 0s", "Longest execution, from sending the request until the answer is read.", []string{"1ms", "24h"},
		[]string{"0s", "-1s"}},
	{"min_gap", "", "from 0s", "Pause between the end of a request and the start of the next.", []string{"0s", "1s"}, []string{"-1s"}},
	{"blackout", "", "cron spec (`start`) and duration (`for`)", "Times at which no slot begins.",
		[]string{`[{start: "0 2 * * *", for: 1h}]`}, []string{`[{start: often, for: 1h}]`}},
	{"max_rows", "rows", "from 0; 0 is none", "The endpoint's row cap. An answer with as many rows counts as partial.",
		[]string{"0", "1"}, []string{"-1"}},
	{"max_bytes", "bytes", "above 0", "Largest answer. Larger ones are cut off and rejected.", []string{"1"}, []string{"0", "-1"}},
	{"max_columns", "columns", "from 0; 0 is the default", "An answer with more columns is an error.", []string{"0", "1"}, []string{"-1"}},
	{"default_graph_uri", "", "IRIs", "Default graphs of queries that name none.", []string{"[http://example.org/g]"}, nil},
	{"named_graph_uri", "", "IRIs", "Named graphs of queries that name none.", []string{"[http://example.org/g]"}, nil},
	{"headers", "", "names and values; none that Freshet sets itself, such as Accept", "Sent with each request.",
		[]string{"{X-Key: v}"}, []string{"{Accept: v}"}},
	{"auth", "", "`basic` or `digest` with `username` and `password_file` (or `password`), or `bearer` with `token_file` (or " +
		"`token`)", "How Freshet signs in at the endpoint.",
		[]string{"{basic: {username: u, password: p}}", "{bearer: {token: t}}"}, []string{"{basic: {username: u}}",
			"{basic: {username: u, password: p}, bearer: {token: t}}"}},
}

var feedSettings = []described{
	{"name", "", "1 to 64 letters, digits, dots, underscores and hyphens; the first is a letter or digit",
		"Name that endpoints use. Required.", []string{"a.B_1-"}, []string{`""`, "a b"}},
	{"kind", "", "`wikimedia`, `ldes`, `rdf-patch`, `changesets` or `deltas`; see [feeds](feeds.md)",
		"Protocol of the feed. Required.", []string{"ldes", "wikimedia"}, []string{"kafka", `""`}},
	{"url", "", "http or https URL; none for `deltas`", "Where it is read. For `rdf-patch`, the patch of " +
		"version 7 is at `URL?version=7`, or where the URL has `{version}`.", []string{"http://127.0.0.1:1/"},
		[]string{`""`, "ftp://127.0.0.1/"}},
	{"contact", "", "one line, such as `mailto:ops@example.org`", "Part of the User-Agent. Empty: the server's `contact`. " +
		"Feeds outside private networks need one.", []string{"mailto:ops@example.org"}, []string{`"a\nb"`}},
	{"headers", "", "names and values; none that Freshet sets itself, such as Accept",
		"Sent with each request. The server shows none of their values.", []string{"{X-Key: v}"}, []string{"{Last-Event-ID: v}", "{Accept: v}"}},
	{"topic", "", "name or beginning of a topic; only for `wikimedia`", "Which events count, where a connection brings those " +
		"of several topics.", []string{`""`}, []string{"main"}},
	{"since", "", "time that has passed", "Where the feed begins when it is read for the first time. Missing: now. " +
		"Patches have no times: for `rdf-patch`, any time means the first version.",
		[]string{"2026-01-01T00:00:00Z"}, []string{"2999-01-01T00:00:00Z", "soon"}},
	{"every", "", "from 0s; 0s is the default of the kind", "How often a feed without a connection is asked.", []string{"0s", "1m"},
		[]string{"-1s"}},
	{"silence", "", "from 0s; 0s is the default of the kind; at least twice `every`, where the feed has no connection",
		"How long it may send nothing and still be believed.", []string{"0s", "2m", "10m"}, []string{"-1s", "1m59s"}},
}

// leaves lists the settings of a configuration type with their types and defaults, in
// their order. Lists are single settings.
func leaves(prefix string, v reflect.Value) (keys []string, kinds, defaults map[string]string) {
	kinds, defaults = map[string]string{}, map[string]string{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		key, x := prefix+name, v.Field(i)
		if x.Kind() == reflect.Struct && f.Type.Name() != "Auth" && f.Type.Name() != "Time" {
			below, k, d := leaves(key+".", x)
			keys = append(keys, below...)
			for _, b := range below {
				kinds[b], defaults[b] = k[b], d[b]
			}
			continue
		}
		keys = append(keys, key)
		kinds[key] = map[string]string{"string": "text", "int": "whole number", "float64": "number", "bool": "true or false",
			"Duration": "duration", "Size": "size", "Role": "text", "Kind": "text", "Time": "time"}[f.Type.Name()]
		switch x.Kind() {
		case reflect.Slice:
			kinds[key] = "list"
		case reflect.Map:
			kinds[key] = "object"
		case reflect.Struct:
			if kinds[key] == "" {
				kinds[key] = "object"
			}
		case reflect.Pointer:
			kinds[key] = "time"
		}
		if d := fmt.Sprint(x); kinds[key] == "true or false" || d != "" && !x.IsZero() || kinds[key] == "whole number" ||
			kinds[key] == "duration" {
			defaults[key] = "`" + d + "`"
		}
		if d, ok := x.Interface().(registry.Duration); ok {
			defaults[key] = "`" + shortly(d.String()) + "`"
		}
	}
	return keys, kinds, defaults
}

// shortly takes zeros at the end away from a duration: 1m0s is 1m.
func shortly(d string) string {
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(d, zero) {
			d = d[:len(d)-2]
		}
	}
	return d
}

// The page on the configuration lists every setting. Types and defaults are those of the
// code, and the ends of the ranges are tried.
func TestHelpOnSettings(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Configuration\n\nSettings of the server, in a YAML file that `--config` or `FRESHET_CONFIG` names. Each " +
		"setting of the first table\n" +
		"except the lists of tokens, endpoints and feeds, `cluster.peers` and `cluster.api` has a variable named after its key: `" +
		config.Variable("limits.body") +
		"` for `limits.body`. Flags\n" +
		"override variables, and variables override the file. `freshet config check` checks a file, and `freshet config print` shows each\n" +
		"value and its source. A test makes this page from the code, and tries the ends of the ranges.\n\n" +
		"Durations are written as `90s`, `10m` or `24h`, and sizes as `64MiB` or as a number of bytes.\n\n## Server\n\n" +
		"SIGHUP reloads tokens, endpoints, feeds and a renewed certificate. Other settings apply at the next start.\n\n")
	for _, d := range serverSettings {
		if d.values == count && strings.Contains(d.meaning, "0: none") {
			t.Errorf("%s: 0 is no limit, and none", d.key)
		}
	}
	def := config.Default()
	table(t, &b, serverSettings, reflect.ValueOf(def), func(key, value string) string {
		text := key + ": " + value + "\n"
		if outer, inner, ok := strings.Cut(key, "."); ok {
			text = outer + ": {" + inner + ": " + value + "}\n"
		}
		return text
	})
	b.WriteString("\n## Tokens\n\nMembers of `tokens`:\n\n")
	table(t, &b, tokenSettings, reflect.ValueOf(registry.Token{}), nil)
	b.WriteString("\n`FRESHET_ADMIN_TOKEN`, or the file that `FRESHET_ADMIN_TOKEN_FILE` names, holds the secret of a token named admin.\n" +
		"\n## Endpoints\n\nMembers of `endpoints`. A setting that is edited on the running server overrides the file until its " +
		"value in the file changes.\n\n")
	table(t, &b, endpointSettings, reflect.ValueOf(registry.Endpoint{}.WithDefaults()), func(key, value string) string {
		members := map[string]string{"name": "x", "url": "http://127.0.0.1:1/sparql"}
		members[key] = value
		text := "endpoints:\n- name: " + members["name"] + "\n  url: " + members["url"] + "\n"
		if key != "name" && key != "url" {
			text += "  " + key + ": " + value + "\n"
		}
		return text
	})
	b.WriteString("\n## Feeds\n\nMembers of `feeds`. Packs of endpoints use feeds that are built in: wikidata, " +
		"wikidata-scholarly, wikidata-full and commons. An entry\nwith the same name replaces one.\n\n")
	table(t, &b, feedSettings, reflect.ValueOf(feed.Definition{}), func(key, value string) string {
		members := map[string]string{"name": "x", "kind": "ldes", "url": "http://127.0.0.1:1/"}
		members[key] = value
		text := "feeds:\n- name: " + members["name"] + "\n"
		delete(members, "name")
		for _, key := range slices.Sorted(maps.Keys(members)) {
			text += "  " + key + ": " + members[key] + "\n"
		}
		return text
	})
	upToDate(t, "reference-configuration.md", b.String())
}

// table writes a table of settings, and tries their values in files that inFile makes.
func table(t *testing.T, b *strings.Builder, list []described, defaults reflect.Value, inFile func(key, value string) string) {
	keys, kinds, def := leaves("", defaults)
	byKey := map[string]described{}
	for _, s := range list {
		byKey[s.key] = s
	}
	if len(list) != len(keys) || len(byKey) != len(keys) {
		t.Errorf("%d settings are described, there are %d", len(byKey), len(keys))
	}
	b.WriteString("| setting | type | default | values | meaning |\n|---|---|---|---|---|\n")
	for _, key := range keys {
		s, ok := byKey[key]
		if !ok || kinds[key] == "" {
			t.Errorf("%s (%s) is not described", key, kinds[key])
		}
		kind := kinds[key]
		if s.unit != "" {
			kind += ": " + s.unit
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", key, kind, def[key], inCell(s.values), inCell(s.meaning))
		for _, v := range s.good {
			if code, said := checkFile(t, inFile(key, v)); code != cli.ExitOK {
				t.Errorf("%s: %s is refused: %s", key, v, said)
			}
		}
		for _, v := range s.bad {
			if code, _ := checkFile(t, inFile(key, v)); code != cli.ExitUsage {
				t.Errorf("%s: %s has exit code %d", key, v, code)
			}
		}
	}
}

func checkFile(t *testing.T, text string) (code int, said string) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, said = runCLI(t, nil, "", "config", "check", "--insecure", "--config", file)
	return code, said
}
