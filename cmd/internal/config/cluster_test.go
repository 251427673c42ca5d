package config

// Tests of the settings of a cluster.

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
)

// A wrong setting of a cluster is named, with what to do about it.
func TestClusterSettings(t *testing.T) {
	dir := t.TempDir()
	secret, short := filepath.Join(dir, "secret"), filepath.Join(dir, "short")
	for file, text := range map[string]string{secret: "of more than 16 characters\n", short: "short\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := "cluster:\n  name: c1\n  node: n1\n  listen: 127.0.0.1:7001\n  peers: {n1: \"127.0.0.1:7001\", n2: " +
		"\"127.0.0.1:7002\", n3: \"127.0.0.1:7003\"}\n  token_file: " + secret + "\n"
	c, err := loadConfig(t, good, nil)
	if err != nil || !c.Cluster.On() || c.Cluster.Gateway() {
		t.Fatal(c, err)
	}
	if c, err := loadConfig(t, "", nil); err != nil || c.Cluster.On() {
		t.Fatal("a server without the block is a node", err)
	}
	for _, x := range []struct{ old, new, want string }{
		{"name: c1", "name: \"\"", "cluster.name: give"},
		{"name: c1", "name: \"a b\"", "cluster.name \"a b\": use"},
		{"node: n1", "node: \"\"", "cluster.node"},
		{"node: n1", "node: n9", "cluster.peers: this node, n9, is not in it; it has n1, n2, n3"},
		{", n3: \"127.0.0.1:7003\"", "", "has 2 members: use 1, 3 or 5"},
		{"127.0.0.1:7003", "127.0.0.1:7002", "n2 and n3 have the same address"},
		{"127.0.0.1:7003", "nowhere", "cluster.peers.n3: \"nowhere\" is not of the form host:port"},
		{"127.0.0.1:7003", "127.0.0.1:70000", "cluster.peers.n3: \"127.0.0.1:70000\" is not of the form host:port with a port from 1"},
		{"listen: 127.0.0.1:7001", "listen: \"\"", "cluster.listen"},
		{"listen: 127.0.0.1:7001", "listen: 127.0.0.1", "cluster.listen"},
		{"listen: 127.0.0.1:7001", "listen: 127.0.0.1:http", "cluster.listen"},
		{"listen: 127.0.0.1:7001", "listen: 127.0.0.1:0", "cluster.listen"},
		{"token_file: " + secret, "token_file: \"\"", "cluster.token_file: name a file"},
		{secret, short, "has 5 characters"},
		{secret, secret + "x", "cluster.token_file: open"},
		{"node: n1", "node: n1\n  role: boss", "none of worker and gateway"},
		{"node: n1", "node: n9\n  role: gateway", "cluster.journal: a gateway"},
		{"node: n1", "node: n1\n  lease: 1s", "cluster.lease: 1s is too short"},
		{"node: n1", "node: n1\n  journal: \"kafka://u:hush@h\"", "none of embedded"},
		{"node: n1", "node: n1\n  replicas: 9", "cluster.replicas: 9"},
		{"node: n1", "node: n1\n  api: {n1: nowhere}", "cluster.api: n1"},
		{"node: n1", "node: n1\n  tls: {cert: a.pem}", "give cert, key and ca"},
		{"node: n1", "node: n1\n  tls: {cert: a.pem, key: b.pem, ca: c.pem}", "cluster.tls: open a.pem"},
		{"node: n1", "node: n1\n  clients: x", "cluster.clients"},
	} {
		text := strings.Replace(good, x.old, x.new, 1)
		_, err := loadConfig(t, text, nil)
		if text == good || err == nil || !strings.Contains(err.Error(), x.want) || cli.ExitCode(err) != cli.ExitUsage ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: error %v, want one with %q", x.new, err, x.want)
		}
	}
	c, err = loadConfig(t, strings.Replace(good, "node: n1", "node: n1\n  journal: \"postgres://u:hush@h/d\"", 1), nil)
	if err != nil || strings.Contains(c.String(), "hush") || c.Cluster.Journal != "postgres://u:hush@h/d" {
		t.Errorf("%v\n%s", err, c)
	}
}

// Nodes compare every setting, except those that are of one machine. Of a password they compare what
// the file contains, and of lists what is in them.
func TestSharedSettings(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"a": "first", "b": "first", "c": "second"}
	for name, text := range files {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base := "mail: {server: \"localhost:25\", from: a@b.example, username: u, password_file: " +
		files["a"] + ", recipients: [x.example, y.example]}\n"
	differing := func(a, b *Config) (keys []string) {
		one, other := a.Shared(), b.Shared()
		for key := range one {
			x, err1 := json.Marshal(one[key])
			y, err2 := json.Marshal(other[key])
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			if string(x) != string(y) {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		return keys
	}
	load := func(old, new string) *Config {
		t.Helper()
		text := strings.Replace(base, old, new, 1)
		c, err := loadConfig(t, text, nil)
		if err != nil || old != "" && text == base {
			t.Fatal(err, text)
		}
		return c
	}
	plain := load("", "")
	for key := range plain.settable() {
		c := load("", "")
		switch v := c.settable()[key].(type) {
		case *string:
			*v += "x"
		case *[]string:
			*v = append(*v, "x")
		case *int:
			*v++
		case *registry.Size:
			*v++
		case *registry.Duration:
			*v++
		default:
			t.Fatalf("%s: %T", key, v)
		}
		want := []string{key}
		if slices.Contains(ofNode, key) || key == "mail.password_file" {
			want = nil
		}
		if got := differing(plain, c); !slices.Equal(got, want) {
			t.Errorf("another value of %s: %v differ, want %v", key, got, want)
		}
	}
	for _, key := range ofNode {
		if plain.settable()[key] == nil {
			t.Errorf("there is no setting %s", key)
		}
	}
	const tokens = "tokens: [{name: a, role: admin, sha256: %[1]s}, {name: b, role: app, sha256: %[1]s}]\n"
	hash := registry.HashSecret("x")
	for _, x := range []struct{ first, second, want string }{
		{base, strings.Replace(base, files["a"], files["b"], 1), ""},
		{base, strings.Replace(base, files["a"], files["c"], 1), "mail.password_file"},
		{base, strings.Replace(base, "[x.example, y.example]", "[y.example, x.example]", 1), ""},
		{fmt.Sprintf(tokens, hash), "tokens: [{name: b, role: app, sha256: " + hash + "}, {name: a, role: admin, sha256: " + hash + "}]\n", ""},
		{fmt.Sprintf(tokens, hash), fmt.Sprintf(tokens, registry.HashSecret("y")), "tokens"},
		{fmt.Sprintf(tokens, hash), "", "tokens"},
		{"endpoints: [{name: city, url: \"http://localhost\"}]\n", "endpoints: [{name: city, url: \"http://localhost\", slot: " +
			"never}]\n", "endpoints.city"},
		{"proxies: {networks: [10.0.0.0/8], header: Forwarded}\n", "", ""}, // of the machine before the node
	} {
		a, err := loadConfig(t, x.first, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := loadConfig(t, x.second, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(differing(a, b), " "); got != x.want {
			t.Errorf("%s\n%s\n%q differ, want %q", x.first, x.second, got, x.want)
		}
	}
}
