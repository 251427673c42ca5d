// Package config reads the configuration of the server from its file, the
// environment and flags, checks it, and says where each value comes from.
package config

import (
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/endpoint/pack"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
)

// A Config is the configuration in force. Its sources are defaults, the file,
// FRESHET_… variables and flags; later ones override earlier ones.
type Config struct {
	Listen          string              `yaml:"listen"`
	PublicURL       string              `yaml:"public_url"` // base of Link headers and topics
	Data            string              `yaml:"data"`       // directory of the store
	Contact         string              `yaml:"contact"`    // part of the User-Agent
	DefaultEndpoint string              `yaml:"default_endpoint"`
	Tokens          []registry.Token    `yaml:"tokens"`
	Origins         []string            `yaml:"origins"`
	TLS             TLS                 `yaml:"tls"`
	Proxies         Proxies             `yaml:"proxies"`
	Endpoints       []registry.Endpoint `yaml:"endpoints"`
	Feeds           []feed.Definition   `yaml:"feeds"`
	Retention       Retention           `yaml:"retention"`
	Limits          Limits              `yaml:"limits"`
	WebSub          WebSub              `yaml:"websub"`
	Mail            Mail                `yaml:"mail"`
	Log             Log                 `yaml:"log"`
	Cluster         Cluster             `yaml:"cluster"`

	File     string  `yaml:"-"` // the configuration file, "" for none
	Insecure bool    `yaml:"-"` // serve without tokens on the network
	Sources  Sources `yaml:"-"` // sources of the values
}

// Proxies are proxies that name the clients for which they ask.
type Proxies struct {
	Networks []string `yaml:"networks"` // besides this machine
	Header   string   `yaml:"header"`
}

// Trusted returns the networks, which Check has checked.
func (p Proxies) Trusted() (list []netip.Prefix) {
	for _, n := range p.Networks {
		if network, err := netip.ParsePrefix(n); err == nil {
			list = append(list, network)
		}
	}
	return list
}

func (p Proxies) check() error {
	for i, n := range p.Networks {
		switch prefix, err := netip.ParsePrefix(n); {
		case err != nil || prefix.Addr().Is4In6():
			return cli.UsageErrorf("proxies.networks[%d]: %q is not a network such as 10.0.0.0/8", i, n)
		case prefix.Bits() == 0:
			return cli.UsageErrorf("proxies.networks[%d]: in %q everybody is a proxy and could choose an address; list the addresses "+
				"of the proxies", i, n)
		}
	}
	if p.Header != "X-Forwarded-For" && p.Header != "Forwarded" {
		return cli.UsageErrorf("proxies.header: %q is neither X-Forwarded-For nor Forwarded", p.Header)
	}
	return nil
}

// TLS names the files of a certificate and its key; both or none.
type TLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Certificate reads the files. It returns nil if none are set.
func (t TLS) Certificate() (*tls.Certificate, error) {
	switch {
	case t.Cert == "" && t.Key == "":
		return nil, nil
	case t.Cert == "" || t.Key == "":
		return nil, cli.UsageErrorf("tls: give both cert and key, or neither")
	}
	c, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, cli.UsageErrorf("tls: %v; cert and key are files in PEM that belong together", err)
	}
	return &c, nil
}

// Retention bounds the change log of each query; one change always stays.
type Retention struct {
	Changes int               `yaml:"changes"`
	Age     registry.Duration `yaml:"age"`
	Bytes   registry.Size     `yaml:"bytes"`
}

// Limits bounds the resources of clients; 0 means no limit.
type Limits struct {
	Queries     int           `yaml:"queries"`
	Body        registry.Size `yaml:"body"`
	Connections int           `yaml:"connections"`
	Change      registry.Size `yaml:"change"`  // a larger change is announced truncated
	Reserve     registry.Size `yaml:"reserve"` // disk space that new registrations must leave free

	// Limits of each token that is not an admin's:
	TokenQueries  int           `yaml:"token_queries"`
	TokenBytes    registry.Size `yaml:"token_bytes"` // of these queries and profiles, and again of the alerts of its rules
	TokenProfiles int           `yaml:"token_profiles"`
	TokenRate     int           `yaml:"token_rate"` // registrations a second

	AddressConnections int `yaml:"address_connections"` // followers of one address

	Rules      int `yaml:"rules"`       // alert rules in all
	TokenRules int `yaml:"token_rules"` // alert rules of each token, also of an admin's

	RuleRows      int `yaml:"rule_rows"` // that may meet the condition of a rule at a time
	RuleReceivers int `yaml:"rule_receivers"`

	TokenReceivers int `yaml:"token_receivers"` // receivers of the alert rules of each token, also of an admin's
	TokenWebhooks  int `yaml:"token_webhooks"`  // webhooks of each token, also of an admin's
}

// WebSub names the networks, besides public addresses, to which callbacks may go.
type WebSub struct {
	AllowCallbackNetworks []string `yaml:"allow_callback_networks"`
}

// Mail says how alerts are sent by e-mail; without a server they are not.
type Mail struct {
	Server       string   `yaml:"server"` // host:port
	From         string   `yaml:"from"`
	Username     string   `yaml:"username"`
	PasswordFile string   `yaml:"password_file"`
	Security     string   `yaml:"security"`
	Recipients   []string `yaml:"recipients"` // addresses and domains
	Visitors     int      `yaml:"visitors"`   // subscriptions of people without a token

	password string // that Check has read
}

// Password reads the file. It returns "" if none is set.
func (m *Mail) Password() (string, error) {
	if m.PasswordFile == "" {
		return "", nil
	}
	return cli.SecretIn(m.PasswordFile, "mail.password_file")
}

func (m *Mail) check() error {
	if m.Visitors < 0 || m.Visitors > 0 && m.Server == "" {
		return cli.UsageErrorf("mail.visitors: %d needs mail.server; 0 serves no form for visitors", m.Visitors)
	}
	if m.Server == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(m.Server)
	if n, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || host == "" || n == 0 {
		return cli.UsageErrorf("mail.server: %q is not of the form host:port, such as mail.example.org:587", m.Server)
	}
	if _, err := mail.ParseAddress(m.From); err != nil {
		return cli.UsageErrorf("mail.from: %q is not an address such as freshet@example.org", m.From)
	}
	if !slices.Contains([]string{"starttls", "tls", "none"}, m.Security) {
		return cli.UsageErrorf("mail.security: %q is none of starttls, tls and none", m.Security)
	}
	if len(m.Recipients) == 0 {
		return cli.UsageErrorf("mail.recipients: list the addresses and domains to which alerts may be sent, such as [example.org]")
	}
	if (m.Username == "") != (m.PasswordFile == "") {
		return cli.UsageErrorf("mail: give both username and password_file, or neither")
	}
	m.password, err = m.Password()
	return err
}

// Log configures the log on standard error. The format auto is text on a terminal and
// JSON elsewhere.
type Log struct {
	Level  string `yaml:"level"`
	Format string `yaml:"format"`
}

func Default() Config {
	return Config{
		Listen:    "127.0.0.1:8080",
		Data:      "./freshet-data",
		Retention: Retention{Changes: 10000, Age: registry.Duration(720 * time.Hour), Bytes: 1 << 30},
		Limits: Limits{Body: 1 << 20, Change: 8 << 20, Reserve: 256 << 20,
			TokenQueries: 10_000, TokenBytes: 32 << 20, TokenProfiles: 1000, TokenRate: 100, AddressConnections: 1000, Rules: 50_000,
			TokenRules: 10_000,
			RuleRows:   1000, RuleReceivers: 10, TokenReceivers: 10_000, TokenWebhooks: 1000},
		Mail:    Mail{Security: "starttls"},
		Proxies: Proxies{Header: "X-Forwarded-For"},
		Log:     Log{Level: "info", Format: "auto"},
		Cluster: Cluster{Journal: EmbeddedJournal, Replicas: 3, Role: "worker", Lease: registry.Duration(10 * time.Second)},
	}
}

// Check returns an error that names the invalid key. It fills values that follow from
// others.
func (c *Config) Check() error {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return cli.UsageErrorf("listen: %q is not of the form host:port", c.Listen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return cli.UsageErrorf("listen: %q is not a port from 0 to 65535", port)
	}
	if c.Data == "" {
		return cli.UsageErrorf("data: name the directory of the store, such as ./freshet-data")
	}
	if strings.ContainsFunc(c.Contact, unicode.IsControl) {
		return cli.UsageErrorf("contact: %q cannot be sent as part of a User-Agent; give a mailto: or web address on one line", c.Contact)
	}
	if c.PublicURL == "" {
		c.PublicURL = c.scheme() + "://" + net.JoinHostPort(publicHost(host), port)
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.RawQuery != "" || u.Fragment != "" {
		return cli.UsageErrorf("public_url: %q is not an http or https URL without query and fragment", c.PublicURL)
	}
	if u.Path != "" {
		return cli.UsageErrorf("public_url: %q has a path: give Freshet a name or a port of its own, such as https://freshet.example.org",
			c.PublicURL)
	}
	if err := c.checkOrigins(); err != nil {
		return err
	}
	if _, err := c.TLS.Certificate(); err != nil {
		return err
	}
	if err := c.checkTokens(); err != nil {
		return err
	}
	for i, n := range c.WebSub.AllowCallbackNetworks {
		if _, err := netip.ParsePrefix(n); err != nil {
			return cli.UsageErrorf("websub.allow_callback_networks[%d]: %q is not a network such as 10.0.0.0/8", i, n)
		}
	}
	if err := c.Proxies.check(); err != nil {
		return err
	}
	if err := c.Mail.check(); err != nil {
		return err
	}
	if c.Retention.Changes < 1 {
		return cli.UsageErrorf("retention.changes: at least one change of each query is kept")
	}
	if c.Limits.Body != 0 && c.Limits.Body < 1<<10 {
		return cli.UsageErrorf("limits.body: must be at least 1KiB, so that queries can be registered; 0 is no limit")
	}
	for key, n := range map[string]int{"queries": c.Limits.Queries, "connections": c.Limits.Connections,
		"token_queries":  c.Limits.TokenQueries,
		"token_profiles": c.Limits.TokenProfiles, "token_rate": c.Limits.TokenRate, "address_connections": c.Limits.AddressConnections,
		"rules": c.Limits.Rules, "token_rules": c.Limits.TokenRules,
		"rule_rows": c.Limits.RuleRows, "rule_receivers": c.Limits.RuleReceivers,
		"token_receivers": c.Limits.TokenReceivers, "token_webhooks": c.Limits.TokenWebhooks} {
		if n < 0 {
			return cli.UsageErrorf("limits.%s: %d is negative; 0 is no limit", key, n)
		}
	}
	if _, err := c.Log.level(); err != nil {
		return cli.UsageErrorf("log.level: %q is none of debug, info, warn, error", c.Log.Level)
	}
	if !slices.Contains([]string{"auto", "text", "json"}, c.Log.Format) {
		return cli.UsageErrorf("log.format: %q is none of auto, text, json", c.Log.Format)
	}
	if err := c.Cluster.check(); err != nil {
		return err
	}
	if err := c.checkFeeds(); err != nil {
		return err
	}
	return c.checkEndpoints()
}

// AllFeeds returns the feeds of the configuration, and the built-in ones.
func (c *Config) AllFeeds() []feed.Definition { return pack.WithFeeds(c.Feeds) }

func (c *Config) checkFeeds() error {
	for i, d := range c.Feeds {
		if slices.ContainsFunc(c.Feeds[:i], func(other feed.Definition) bool { return other.Name == d.Name }) {
			return cli.UsageErrorf("feeds[%d].name: the name %s is taken: give each feed a name of its own", i, d.Name)
		}
		err := d.Check(c.Contact, time.Now())
		if wrong, ok := errors.AsType[*registry.SettingError](err); ok {
			return cli.UsageErrorf("feeds[%d].%s: %s: %v", i, wrong.Setting, d.Name, wrong.Err)
		}
	}
	return nil
}

// Listening replaces port 0 by the port that the system chose.
func (c *Config) Listening(addr string) {
	if !strings.HasSuffix(c.Listen, ":0") {
		return
	}
	_, port, _ := net.SplitHostPort(addr)
	c.Listen = strings.TrimSuffix(c.Listen, "0") + port
	if public, ok := strings.CutSuffix(c.PublicURL, ":0"); ok {
		c.PublicURL = public + ":" + port
	}
}

func (c *Config) scheme() string {
	if c.TLS.Cert != "" {
		return "https"
	}
	return "http"
}

func publicHost(host string) string {
	if host == "" || host == "0.0.0.0" || host == "::" {
		return "127.0.0.1"
	}
	return host
}

// checkOrigins refuses patterns, which may allow more than their author intended.
func (c *Config) checkOrigins() error {
	for i, o := range c.Origins {
		o = strings.TrimSuffix(o, "/")
		if err := new(http.CrossOriginProtection).AddTrustedOrigin(o); err != nil || strings.Contains(o, "*") {
			return cli.UsageErrorf("origins[%d]: %q is not an origin such as https://app.example.org", i, o)
		}
		c.Origins[i] = o
	}
	return nil
}

func (c *Config) checkTokens() error {
	seen := map[string]bool{}
	for i, t := range c.Tokens {
		b, err := hex.DecodeString(t.SHA256)
		if err := registry.CheckTokenName(t.Name); err != nil {
			return cli.UsageErrorf("tokens[%d].name: %v", i, err)
		}
		switch {
		case seen[t.Name]:
			return cli.UsageErrorf("tokens[%d]: the name %s is taken: give each token a name of its own", i, t.Name)
		case !t.Role.Includes(registry.RoleRead):
			return cli.UsageErrorf("tokens[%d].role: %q is none of admin, app, read", i, t.Role)
		case err != nil || len(b) != 32:
			return cli.UsageErrorf("tokens[%d].sha256: 64 hexadecimal digits are wanted; 'freshet token add --local %s' makes some", i, t.Name)
		}
		seen[t.Name] = true
		c.Tokens[i].SHA256 = strings.ToLower(t.SHA256)
	}
	return nil
}

func (c *Config) checkEndpoints() error {
	seen := map[string]bool{}
	for i, e := range c.Endpoints {
		if seen[e.Name] {
			return cli.UsageErrorf("endpoints[%d]: the name %s is taken: give each endpoint a name of its own", i, e.Name)
		}
		seen[e.Name] = true
		u, err := url.Parse(e.URL) // a broken one is refused elsewhere, with a better message
		if c.Contact == "" && err == nil && !registry.PrivateHost(u.Hostname()) {
			return cli.UsageErrorf("endpoints[%d]: %s is not on a private network: set contact (a mailto: or web address) so that "+
				"its operators can reach you", i, e.Name)
		}
	}
	return nil
}

// Safe returns an error if clients beyond this machine could reach a server without
// tokens: on an address of the network, or through a proxy that public_url names.
func (c *Config) Safe() error {
	if len(c.Tokens) > 0 || c.Insecure {
		return nil
	}
	const remedy = "Configure tokens ('freshet token add --local ops --role admin' makes one), "
	if host, _, _ := net.SplitHostPort(c.Listen); !registry.Loopback(host) {
		return cli.UsageErrorf("listening on %s without tokens would let anyone on the network in.\n"+
			remedy+"listen on 127.0.0.1, or pass --insecure.", c.Listen)
	}
	if u, err := url.Parse(c.PublicURL); err == nil && !registry.Loopback(u.Hostname()) {
		return cli.UsageErrorf("public_url %s without tokens would let in anyone who comes through a proxy.\n"+
			remedy+"take public_url away, or pass --insecure.", c.PublicURL)
	}
	return nil
}

func (l Log) level() (slog.Level, error) {
	var v slog.Level
	err := v.UnmarshalText([]byte(l.Level))
	return v, err
}

func (l Log) Logger(w *cli.Env) *slog.Logger {
	level, _ := l.level()
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: inSeconds}
	if l.Format == "json" || l.Format == "auto" && !w.Terminal {
		return slog.New(slog.NewJSONHandler(w.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(w.Stderr, o))
}

// inSeconds logs durations as numbers of seconds, so that log stores can add them:
// took becomes took_seconds.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	d := a.Value.Any()
	switch d := d.(type) {
	case time.Duration:
		return slog.Float64(a.Key+"_seconds", d.Seconds())
	case registry.Duration:
		return slog.Float64(a.Key+"_seconds", time.Duration(d).Seconds())
	}
	return a
}

// endpointFlag reads NAME=URL.
func endpointFlag(s string) (registry.Endpoint, error) {
	name, u, ok := strings.Cut(s, "=")
	if !ok || name == "" || u == "" {
		hint := fmt.Sprintf(", such as coins=http://127.0.0.1:3030/sparql. For these endpoints there are packs: %s; start the "+
			"server, and run 'freshet endpoint add --pack NAME'",
			strings.Join(pack.Names(), ", "))
		if p, err := pack.Find(registry.Nearest(s, pack.Names())); err == nil {
			e, _ := p.Endpoint() // a test reads all of them
			hint = fmt.Sprintf(", such as %s=%s; with its settings as well: start the server, and run 'freshet endpoint add --pack %s'",
				p.Name, e.URL, p.Name)
		}
		return registry.Endpoint{}, cli.UsageErrorf("--endpoint takes NAME=URL, not %q%s", s, hint)
	}
	return registry.Endpoint{Name: name, URL: u}, nil
}

func (c *Config) String() string {
	shown := *c
	shown.Endpoints = slices.Clone(c.Endpoints)
	for i, e := range shown.Endpoints {
		shown.Endpoints[i] = e.WithDefaults().Masked()
	}
	shown.Tokens = slices.Clone(c.Tokens)
	for i := range shown.Tokens {
		shown.Tokens[i].SHA256 = "(set)"
	}
	shown.Feeds = slices.Clone(c.Feeds)
	for i, d := range shown.Feeds {
		shown.Feeds[i] = d.Masked()
	}
	shown.Cluster = c.Cluster.Masked()
	b, err := yaml.Marshal(shown)
	if err != nil {
		return fmt.Sprintf("# %v\n", err)
	}
	return string(b)
}

// Registration returns the limits on registrations.
func (l Limits) Registration() registry.Limits {
	return registry.Limits{Queries: l.Queries, TokenQueries: l.TokenQueries, TokenBytes: int64(l.TokenBytes),
		TokenProfiles: l.TokenProfiles, TokenRate: float64(l.TokenRate)}
}
