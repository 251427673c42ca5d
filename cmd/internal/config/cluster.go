package config

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal"
)

// A Cluster says how this server shares its data with others. Without a name it does not.
type Cluster struct {
	Name      string            `yaml:"name"`
	Node      string            `yaml:"node"`   // of this server, unique in the cluster
	Listen    string            `yaml:"listen"` // where this node's part of an embedded journal listens for the other members
	Peers     map[string]string `yaml:"peers"`  // node → address at which the other members reach it
	Clients   string            `yaml:"clients"`
	API       map[string]string `yaml:"api"` // node → URL at which other nodes reach its API
	Journal   string            `yaml:"journal"`
	Replicas  int               `yaml:"replicas"` // of the journal on external NATS servers
	TokenFile string            `yaml:"token_file"`
	Role      string            `yaml:"role"`
	Lease     registry.Duration `yaml:"lease"`
	TLS       ClusterTLS        `yaml:"tls"`
}

// ClusterTLS names the files with which the members of an embedded journal recognise each other;
// all or none.
type ClusterTLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	CA   string `yaml:"ca"`
}

// EmbeddedJournal is the value of cluster.journal for a journal in the servers themselves.
const EmbeddedJournal = "embedded"

const leastLease = 3 * time.Second

// On reports whether this server is a node of a cluster.
func (c *Cluster) On() bool { return c.Name != "" }

// Gateway reports whether this node owns nothing.
func (c *Cluster) Gateway() bool { return c.Role == "gateway" }

var nodeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

func (c *Cluster) check() error {
	if !c.On() {
		if c.Node != "" || len(c.Peers) > 0 || c.TokenFile != "" {
			return cli.UsageErrorf("cluster.name: give the cluster a name, the same on all its nodes, such as freshet-1")
		}
		return nil
	}
	if err := journal.CheckName(c.Name); err != nil {
		return cli.UsageErrorf("%v", err)
	}
	if !nodeForm.MatchString(c.Node) {
		return cli.UsageErrorf("cluster.node: %.40q: give this node a name of its own of 1 to 32 letters, digits, hyphens and "+
			"underscores, such as n1", c.Node)
	}
	for node := range c.Peers {
		if !nodeForm.MatchString(node) {
			return cli.UsageErrorf("cluster.peers: %.40q: use 1 to 32 letters, digits, hyphens and underscores for the name of a node", node)
		}
	}
	if c.Role != "worker" && !c.Gateway() {
		return cli.UsageErrorf("cluster.role: %q is none of worker and gateway", c.Role)
	}
	if time.Duration(c.Lease) < leastLease {
		return cli.UsageErrorf("cluster.lease: %v is too short: use at least %v, so that a slow disk does not make a node lose "+
			"its endpoints", c.Lease, leastLease)
	}
	if c.Replicas < 1 || c.Replicas > 5 {
		return cli.UsageErrorf("cluster.replicas: %d is not a number from 1 to 5", c.Replicas)
	}
	for node, api := range c.API {
		if u, err := url.Parse(api); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return cli.UsageErrorf("cluster.api: %s: %q is not an http or https URL", node, api)
		}
	}
	if _, err := c.Token(); err != nil {
		return err
	}
	if _, err := c.TLS.Config(); err != nil {
		return err
	}
	scheme, _, _ := strings.Cut(c.Journal, "://")
	switch scheme {
	case EmbeddedJournal:
		return c.checkMembers()
	case "nats", "tls", "postgres", "postgresql":
		return nil
	}
	return cli.UsageErrorf("cluster.journal: %q is none of embedded, nats://HOST:PORT and postgres://HOST/DATABASE", c.Masked().Journal)
}

// checkMembers checks what an embedded journal needs.
func (c *Cluster) checkMembers() error {
	names := slices.Sorted(maps.Keys(c.Peers))
	switch {
	case c.Gateway() && c.Peers[c.Node] == "":
		return cli.UsageErrorf("cluster.journal: a gateway that is not in cluster.peers reads the journal from the members: set " +
			"nats://HOST:PORT with the addresses of their cluster.clients, separated by commas")
	case c.Peers[c.Node] == "":
		return cli.UsageErrorf("cluster.peers: this node, %s, is not in it; it has %s: list all members with the addresses at "+
			"which the others reach them, the same on all", c.Node, orNone(names))
	case len(names) != 1 && len(names) != 3 && len(names) != 5:
		return cli.UsageErrorf("cluster.peers: it has %d members: use 1, 3 or 5", len(names))
	case c.TokenFile == "":
		return cli.UsageErrorf("cluster.token_file: name a file with a secret that all nodes share, of at least %d characters",
			registry.MinSecretLength)
	}
	at := map[string]string{}
	for _, n := range names {
		if err := checkAddress("cluster.peers."+n, c.Peers[n]); err != nil {
			return err
		}
		if other := at[c.Peers[n]]; other != "" {
			return cli.UsageErrorf("cluster.peers: %s and %s have the same address %s", other, n, c.Peers[n])
		}
		at[c.Peers[n]] = n
	}
	if len(names) > 1 || c.Listen != "" {
		if err := checkAddress("cluster.listen", c.Listen); err != nil {
			return err
		}
	}
	if c.Clients != "" {
		return checkAddress("cluster.clients", c.Clients)
	}
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "no members"
	}
	return strings.Join(names, ", ")
}

func checkAddress(setting, address string) error {
	_, text, err := net.SplitHostPort(address)
	if port, failed := strconv.ParseUint(text, 10, 16); err != nil || failed != nil || port == 0 {
		return cli.UsageErrorf("%s: %q is not of the form host:port with a port from 1 to 65535, such as 10.0.0.1:7001", setting, address)
	}
	return nil
}

// Masked returns c without the password of its journal.
func (c *Cluster) Masked() Cluster {
	shown := *c
	if u, err := url.Parse(c.Journal); err == nil && u.User != nil {
		shown.Journal = u.Redacted()
	}
	return shown
}

// Token reads the file of the secret that the nodes share. It returns "" if none is set.
func (c *Cluster) Token() (string, error) {
	if c.TokenFile == "" {
		return "", nil
	}
	secret, err := cli.SecretIn(c.TokenFile, "cluster.token_file")
	if err != nil {
		return "", err
	}
	if len(secret) < registry.MinSecretLength {
		return "", cli.UsageErrorf("cluster.token_file: %s: the secret has %d characters, at least %d are needed", c.TokenFile,
			len(secret), registry.MinSecretLength)
	}
	return secret, nil
}

// Members describes the peers in one text, the same on all members.
func (c *Cluster) Members() string {
	var list []string
	for _, n := range slices.Sorted(maps.Keys(c.Peers)) {
		list = append(list, n+"="+c.Peers[n])
	}
	return strings.Join(list, " ")
}

// ofNode are the settings that may differ between the nodes of a cluster.
var ofNode = []string{
	// Addresses, files, and the log, which are those of one machine:
	"listen", "public_url", "data", "tls.cert", "tls.key", "log.level", "log.format", "proxies.networks", "proxies.header",
	"cluster.node", "cluster.listen", "cluster.clients", "cluster.role", "cluster.tls.cert", "cluster.tls.key", "cluster.tls.ca",
	// What one machine can bear:
	"limits.connections", "limits.address_connections", "limits.reserve",
	// What nodes that are in one cluster agree on, because a node with another value does not join:
	"cluster.name", "cluster.journal", "cluster.replicas", "cluster.token_file",
}

// Shared returns the settings that should be the same at all nodes of a cluster, by their keys.
// Their values are to be compared only. A file with a secret is replaced by what it contains.
func (c *Config) Shared() map[string]any {
	shared := map[string]any{}
	for key, v := range c.settable() {
		if list, ok := v.(*[]string); ok { // in any order
			v = slices.Sorted(slices.Values(*list))
		}
		if !slices.Contains(ofNode, key) {
			shared[key] = v
		}
	}
	shared["mail.password_file"] = c.Mail.password
	shared["tokens"] = slices.SortedFunc(slices.Values(c.Tokens), func(a, b registry.Token) int { return strings.Compare(a.Name, b.Name) })
	for _, d := range c.Feeds {
		shared["feeds."+d.Name] = d
	}
	for _, e := range c.Endpoints {
		shared["endpoints."+e.Name] = e.WithDefaults()
	}
	return shared
}

// Config reads the files. It returns nil if none are set.
func (t ClusterTLS) Config() (*tls.Config, error) {
	if t == (ClusterTLS{}) {
		return nil, nil
	}
	if t.Cert == "" || t.Key == "" || t.CA == "" {
		return nil, cli.UsageErrorf("cluster.tls: give cert, key and ca, or none of them")
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, cli.UsageErrorf("cluster.tls: %v; cert and key are files in PEM that belong together", err)
	}
	ca, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, cli.UsageErrorf("cluster.tls.ca: %v", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, cli.UsageErrorf("cluster.tls.ca: %s has no certificate in PEM", t.CA)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ClientCAs: roots, MinVersion: tls.VersionTLS13}, nil
}

// Trust returns what a client of the other nodes' APIs trusts: the authorities of this machine,
// and that of the members if one is set.
func (t ClusterTLS) Trust() (*tls.Config, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if t.CA != "" {
		ca, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, cli.UsageErrorf("cluster.tls.ca: %v", err)
		}
		roots.AppendCertsFromPEM(ca)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
