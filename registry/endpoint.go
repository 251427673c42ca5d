package registry

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/registry/sparql"
)

// An Endpoint is a SPARQL 1.1 Protocol service that Freshet does not control,
// with the settings that say when and how it is asked. The names are those of
// the configuration file and the API.
type Endpoint struct {
	Name           string   `json:"name" yaml:"name"`
	URL            string   `json:"url" yaml:"url"`
	Slot           string   `json:"slot" yaml:"slot"`     // cron spec, "@every 10s", or "never" (only on request)
	Budget         Duration `json:"budget" yaml:"budget"` // K: execution seconds in one slot
	Policy         string   `json:"policy" yaml:"policy"`
	Rule           string   `json:"rule" yaml:"rule"` // strict or debt
	FallbackPolicy string   `json:"fallback_policy" yaml:"fallback_policy"`
	ProfileShare   float64  `json:"profile_share" yaml:"profile_share"`
	// Merge is how queries that differ in constants only are asked together.
	Merge        string   `json:"merge" yaml:"merge"`
	Shadows      []string `json:"shadows" yaml:"shadows"`             // policies to compare with Policy on the records
	TimeoutParam string   `json:"timeout_param" yaml:"timeout_param"` // the endpoint's parameter for a time limit in milliseconds
	AllowService bool     `json:"allow_service" yaml:"allow_service"`
	OwnServices  []string `json:"own_services" yaml:"own_services"` // services that SERVICE may name without AllowService
	AllowPublic  bool     `json:"allow_public" yaml:"allow_public"` // every holder may publish its queries
	Feed         string   `json:"feed" yaml:"feed"`                 // the name of the feed that tells what changes in its data
	// Position is a SELECT of one value, or a name of one: up to which event its data include the feed.
	Position        string            `json:"position" yaml:"position"`
	Lag             Duration          `json:"lag" yaml:"lag"` // how long after an event its data lack it at most
	Concurrency     int               `json:"concurrency" yaml:"concurrency"`
	Timeout         Duration          `json:"timeout" yaml:"timeout"` // of one execution
	MinGap          Duration          `json:"min_gap" yaml:"min_gap"` // between the end of one request and the start of the next
	Blackout        []Blackout        `json:"blackout" yaml:"blackout"`
	MaxRows         int               `json:"max_rows" yaml:"max_rows"` // the endpoint's known cap; 0: none
	MaxBytes        Size              `json:"max_bytes" yaml:"max_bytes"`
	MaxColumns      int               `json:"max_columns" yaml:"max_columns"` // maximum number of variables of a result
	DefaultGraphURI []string          `json:"default_graph_uri" yaml:"default_graph_uri"`
	NamedGraphURI   []string          `json:"named_graph_uri" yaml:"named_graph_uri"`
	Headers         map[string]string `json:"headers" yaml:"headers"`
	Auth            Auth              `json:"auth,omitzero" yaml:"auth"`
	Pause           *Pause            `json:"pause,omitempty" yaml:"-"`
}

// Clone returns a copy that shares nothing with e.
func (e Endpoint) Clone() Endpoint {
	for _, list := range []*[]string{&e.Shadows, &e.OwnServices, &e.DefaultGraphURI, &e.NamedGraphURI} {
		*list = slices.Clone(*list)
	}
	e.Blackout, e.Headers = slices.Clone(e.Blackout), maps.Clone(e.Headers)
	e.Auth.Basic, e.Auth.Digest, e.Auth.Bearer = clone(e.Auth.Basic), clone(e.Auth.Digest), clone(e.Auth.Bearer)
	e.Pause = clone(e.Pause)
	return e
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// PrivateHost reports from the name alone, without a lookup, whether a host is private: a loopback or private address,
// or a name that only private networks resolve.
func PrivateHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if !strings.Contains(host, ".") {
		return true // localhost, or the name of a container or of a host in the local network
	}
	for _, suffix := range []string{".localhost", ".local", ".internal", ".lan", ".home.arpa", ".test"} {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}

// Loopback reports whether only this machine can reach a host.
func Loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback()
}

// A Blackout is a recurring time in which no slot starts: a cron spec and a
// length.
type Blackout struct {
	Start string   `json:"start" yaml:"start"`
	For   Duration `json:"for" yaml:"for"`
}

// Auth is how Freshet authenticates at an endpoint. At most one of the three is
// set.
type Auth struct {
	Basic  *Password `json:"basic,omitempty" yaml:"basic,omitempty"`
	Digest *Password `json:"digest,omitempty" yaml:"digest,omitempty"`
	Bearer *Bearer   `json:"bearer,omitempty" yaml:"bearer,omitempty"`
}

// A Password is given directly or, preferably, in a file.
type Password struct {
	Username     string `json:"username" yaml:"username"`
	Password     string `json:"password,omitempty" yaml:"password,omitempty"`
	PasswordFile string `json:"password_file,omitempty" yaml:"password_file,omitempty"`
}

// A Bearer token is given directly or, preferably, in a file.
type Bearer struct {
	Token     string `json:"token,omitempty" yaml:"token,omitempty"`
	TokenFile string `json:"token_file,omitempty" yaml:"token_file,omitempty"`
}

// Health summarises the recent executions at an endpoint. It is persisted so
// that a Retry-After survives a restart.
type Health struct {
	State string    `json:"state"` // healthy, failing or throttled
	Since time.Time `json:"since,omitzero"`
	// Until is the time before which the endpoint is not asked: while throttled,
	// because it said so; while failing, until the next probe. It is zero for a
	// failing endpoint that is asked as usual.
	Until      time.Time `json:"until,omitzero"`
	Failures   int       `json:"failures"`             // consecutive failures of the endpoint itself
	Incomplete int       `json:"incomplete,omitempty"` // consecutive executions that were not complete, for any reason
	Error      string    `json:"error,omitempty"`      // the endpoint's last error message
	// MaxRows is the cap that the endpoint reported last; 0: none.
	MaxRows int `json:"max_rows,omitempty"`
}

// AfterEdit returns what remains of h when the settings are edited. Another
// host resets it. Another URL or max_rows drops the reported cap. Another
// request setting drops the count of incomplete executions.
func (h Health) AfterEdit(was, now Endpoint) Health {
	if hostOf(was.URL) != hostOf(now.URL) {
		return Health{}
	}
	if RequestsDiffer(was, now) {
		if h.Incomplete = 0; h.State == HealthFailing && h.Until.IsZero() {
			h.State, h.Since, h.Error = Healthy, time.Time{}, ""
		}
	}
	if was.URL != now.URL || was.MaxRows != now.MaxRows {
		h.MaxRows = 0
	}
	return h
}

// LeavesHost reports whether an edit of the URL leads to another host or port,
// or from https to http. Secrets must not follow such an edit by themselves.
func LeavesHost(was, now Endpoint) bool {
	a, err1 := url.Parse(CanonicalURL(was.URL))
	b, err2 := url.Parse(CanonicalURL(now.URL))
	return err1 != nil || err2 != nil || a.Host != b.Host || a.Scheme == "https" && b.Scheme != "https"
}

// hostOf is the host and port of a URL in one spelling.
func hostOf(address string) string {
	u, err := url.Parse(CanonicalURL(address))
	if err != nil {
		return address
	}
	return u.Host
}

// The states of an endpoint's health.
const (
	Healthy         = "healthy"
	HealthThrottled = "throttled" // it asked Freshet to wait
	HealthFailing   = "failing"   // it does not answer, or none of its answers is complete
)

// HealthStates lists the states of an endpoint's health.
func HealthStates() []string { return []string{Healthy, HealthThrottled, HealthFailing} }

// Default values of settings.
const (
	DefaultSlot   = "@every 1m"
	DefaultBudget = Duration(10 * time.Second)
	DefaultPolicy = "hybrid"
	DefaultMerge  = MergeAuto
	DefaultLag    = Duration(10 * time.Minute)
	// DefaultMaxColumns exceeds the width of any table made for reading and keeps
	// the cost of a row's head small.
	DefaultMaxColumns = 10_000
)

// The ways to ask queries that differ in constants only.
const (
	MergeAuto   = "auto"   // whatever costs least by trial
	MergeOff    = "off"    // one request per query
	MergeValues = "values" // one request for several, wherever that is exact
	MergeProbe  = "probe"  // the same, asking for digests first where digests suffice
)

// MergeModes lists the values of Merge.
func MergeModes() []string { return []string{MergeAuto, MergeOff, MergeValues, MergeProbe} }

// RequestSettings returns the settings that decide how a request is made and
// what its answer means. The others, which decide when and how often, are zero.
func (e Endpoint) RequestSettings() Endpoint {
	e.Slot, e.Budget, e.Policy, e.Rule, e.FallbackPolicy, e.ProfileShare, e.Shadows, e.Blackout, e.Pause, e.AllowPublic,
		e.OwnServices, e.Merge = "", 0, "", "", "", 0, nil, nil, nil, false, nil, ""
	if e.Feed, e.Lag = "", 0; e.Position != "" { // caches are asked to pass requests on, whatever it is
		e.Position = "told"
	}
	return e
}

// RequestsDiffer reports whether an execution under the new settings may end
// differently from one under the old, because of its request or of its time
// limit.
func RequestsDiffer(was, now Endpoint) bool {
	return was.Budget != now.Budget || was.Rule != now.Rule || !reflect.DeepEqual(was.RequestSettings(), now.RequestSettings())
}

// WithDefaults returns e with the default values of the settings that are zero.
func (e Endpoint) WithDefaults() Endpoint {
	setDefault(&e.Slot, DefaultSlot)
	if d, err := ParseDuration(e.Slot); err == nil && d > 0 { // 5m
		e.Slot = "@every " + e.Slot
	}
	setDefault(&e.Budget, DefaultBudget)
	setDefault(&e.Policy, DefaultPolicy)
	setDefault(&e.Rule, "strict")
	setDefault(&e.FallbackPolicy, DefaultPolicy)
	setDefault(&e.ProfileShare, 0.5)
	setDefault(&e.Merge, DefaultMerge)
	setDefault(&e.Lag, DefaultLag)
	setDefault(&e.Concurrency, 1)
	setDefault(&e.Timeout, Duration(30*time.Second))
	setDefault(&e.MaxBytes, 64<<20)
	setDefault(&e.MaxColumns, DefaultMaxColumns)
	return e
}

func setDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// A SettingError is an error about one setting of an endpoint.
type SettingError struct {
	Setting string // JSON name
	Err     error
}

func (e *SettingError) Error() string { return e.Setting + ": " + e.Err.Error() }

// Unwrap returns the error about the setting.
func (e *SettingError) Unwrap() error { return e.Err }

var endpointName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckEndpointName returns a *Problem about a field if a text cannot be the name of an endpoint.
func CheckEndpointName(pointer, name string) error {
	if !endpointName.MatchString(name) {
		return WrongField(KindBadSetting, pointer, "%s", EndpointNames)
	}
	return nil
}

// EndpointNames says what the name of an endpoint, or of a feed, looks like.
const EndpointNames = "a name begins with a letter or digit and holds letters, digits, dot, underscore and hyphen, 64 at most"

// CheckEndpoint returns a *Problem if an endpoint's settings are invalid.
// schedule checks what this package does not know, such as slot, budget, policy
// and contact. Its errors may wrap a *SettingError.
func CheckEndpoint(e Endpoint, schedule func(Endpoint) error) error {
	bad := func(field, format string, a ...any) error {
		return WrongField(KindBadEndpoint, "/"+field, format, a...)
	}
	u, err := url.Parse(e.URL)
	switch {
	case !endpointName.MatchString(e.Name):
		return bad("name", EndpointNames)
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return bad("url", "the URL must be absolute, with http or https")
	case u.Fragment != "" || strings.Contains(e.URL, "#"):
		return bad("url", "the URL must not have a fragment")
	case strings.Contains(u.RawQuery, maskedValue):
		return bad("url", "this is what callers without the role admin see of a URL: write it in full")
	case !validPort(u.Port()):
		return bad("url", "the URL's port must lie between 1 and 65535")
	case u.User != nil:
		return bad("url", "put credentials into auth, not into the URL")
	case e.Budget <= 0:
		return bad("budget", "budget must be greater than 0")
	case e.Concurrency < 1 || e.Concurrency > 64:
		return bad("concurrency", "concurrency must be from 1 to 64")
	case e.Timeout <= 0:
		return bad("timeout", "timeout must be greater than 0")
	case !(e.ProfileShare >= 0 && e.ProfileShare <= 1):
		return bad("profile_share", "profile_share must be from 0 to 1")
	case !slices.Contains(MergeModes(), e.Merge):
		return bad("merge", "merge must be one of %s", strings.Join(MergeModes(), ", "))
	case slices.Contains(protocolParams, e.TimeoutParam):
		return bad("timeout_param", "%q is a parameter of the SPARQL protocol itself; name the endpoint's own parameter for a "+
			"time limit in milliseconds, such as timeout", e.TimeoutParam)
	case e.Lag < 0:
		return bad("lag", "lag must be greater than 0; leave it out for the default of %s", DefaultLag.Short())
	case e.Position != "" && e.Feed == "":
		return bad("position", "a position is one in a feed: name the feed, or leave position out")
	case e.MaxColumns < 0:
		return bad("max_columns", "max_columns must be greater than 0; leave it out for the default of %d", DefaultMaxColumns)
	case e.MaxRows < 0:
		return bad("max_rows", "max_rows must be 0 (no cap) or greater")
	}
	for _, own := range e.OwnServices {
		if !serviceName.MatchString(own) {
			return bad("own_services", "%q is neither an absolute IRI nor a name with a prefix, such as wikibase:label", own)
		}
	}
	if err := checkPosition(e.Position); err != nil {
		return bad("position", "position: %v, such as %s, or one of the names %s", err, positions["updateStreamNextOffset"],
			strings.Join(slices.Sorted(maps.Keys(positions)), ", "))
	}
	if err := CheckHeaders(e.Headers); err != nil {
		return bad("headers", "%v", err)
	}
	if err := e.Auth.check(); err != nil {
		return bad("auth", "%v", err)
	}
	if schedule != nil {
		if err := schedule(e); err != nil {
			return badSetting(err)
		}
	}
	return nil
}

// positions are queries for positions that endpoints of some kinds answer, by names that settings use.
var positions = map[string]string{
	"updateStreamNextOffset": "SELECT (MAX(?n) AS ?next) { <http://wikiba.se/ontology#Dump> " +
		"<http://wikiba.se/ontology#updateStreamNextOffset> ?n }",
	"updatesCompleteUntil": "SELECT (MAX(?t) AS ?until) { <http://wikiba.se/ontology#Dump> " +
		"<http://wikiba.se/ontology#updatesCompleteUntil> ?t }",
	"dateModified": "SELECT (MIN(?t) AS ?until) { <http://www.wikidata.org> <http://schema.org/dateModified> ?t }",
}

// PositionQuery returns the query for the endpoint's position, "" if it does not tell.
func (e Endpoint) PositionQuery() string {
	if text, ok := positions[e.Position]; ok {
		return text
	}
	return e.Position
}

// checkPosition returns an error unless text, if there is one, is a SELECT with one column or names one.
func checkPosition(text string) error {
	if text == "" || positions[text] != "" {
		return nil
	}
	a, err := sparql.Analyse(text)
	switch {
	case err != nil:
		return fmt.Errorf("this is no query: %v; write a SELECT with one row and one column", err)
	case a.Form != "SELECT":
		return fmt.Errorf("this is %s %s; write a SELECT with one row and one column", article(a.Form), a.Form)
	case a.Star:
		return errors.New("SELECT * does not say how many columns there are; name the one variable that is the position")
	case len(a.Vars) != 1 || a.Unnamed:
		return fmt.Errorf("this SELECT has %s; select the one variable that is the position", columns(a))
	}
	return nil
}

func article(form string) string {
	if form == "ASK" {
		return "an"
	}
	return "a"
}

func columns(a *sparql.Analysis) string {
	if a.Unnamed {
		return "a column without a name of its own"
	}
	return fmt.Sprintf("%d columns (?%s)", len(a.Vars), strings.Join(a.Vars, ", ?"))
}

// CheckGiven refuses settings that are explicitly 0 where 0 means the default,
// because they would silently become the default. given holds the settings as
// written, by name.
func CheckGiven(given map[string]any) error {
	for _, key := range []string{"budget", "timeout", "concurrency", "profile_share", "max_bytes", "lag"} {
		if v, ok := given[key]; ok && zero(v) {
			return WrongField(KindBadEndpoint, "/"+key, "%s must be greater than 0; leave it out for the default", key)
		}
	}
	return nil
}

// zero reports whether a JSON or YAML value is 0, with or without a unit.
func zero(v any) bool {
	text := fmt.Sprint(v) // null is "<nil>"
	var d Duration
	var s Size
	n, err := strconv.ParseFloat(text, 64)
	return err == nil && n == 0 || d.UnmarshalText([]byte(text)) == nil && d == 0 || s.UnmarshalText([]byte(text)) == nil && s == 0
}

// badSetting returns a problem that points to the setting that err names, else
// to the whole endpoint.
func badSetting(err error) *Problem {
	s := (*SettingError)(nil)
	if !errors.As(err, &s) {
		return WrongField(KindBadEndpoint, "", "%v", err)
	}
	p := WrongField(KindBadEndpoint, "/"+s.Setting, "%v", s.Err)
	p.Detail = s.Error()
	return p
}

// protocolParams are the parameters of the SPARQL 1.1 Protocol. A time limit in
// their place would replace a part of the request.
var protocolParams = []string{"query", "update", "default-graph-uri", "named-graph-uri", "using-graph-uri", "using-named-graph-uri"}

// validPort reports whether a URL's port is valid. An empty one is.
func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// serviceName matches an IRI with a scheme, or a prefixed name.
var serviceName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+._-]*:[^\s<>"{}|\\^` + "`" + `]+$`)

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// CheckHeaders returns an error if header fields cannot be sent, or are set by this program.
func CheckHeaders(h map[string]string) error {
	for name, value := range h {
		if !headerName.MatchString(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return fmt.Errorf("%q is not a header that can be sent", name)
		}
		switch strings.ToLower(name) {
		case "host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "accept",
			"accept-encoding", "user-agent",
			"if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range", "expect", "te", "trailer", "upgrade":
			return fmt.Errorf("%s is set by Freshet itself", name)
		}
	}
	return nil
}

func (a Auth) check() error {
	kinds := 0
	for _, p := range []*Password{a.Basic, a.Digest} {
		if p == nil {
			continue
		}
		kinds++
		if p.Username == "" || (p.Password == "") == (p.PasswordFile == "") {
			return errors.New("give a username and either password or password_file")
		}
	}
	if b := a.Bearer; b != nil {
		kinds++
		if (b.Token == "") == (b.TokenFile == "") {
			return errors.New("give either token or token_file")
		}
	}
	if kinds > 1 {
		return errors.New("give only one of basic, digest and bearer")
	}
	return nil
}

// Mask is shown in place of a secret. In an edit it keeps the secret that is stored.
const Mask = "(set)"

// Masked returns e with its secrets replaced by "(set)".
func (e Endpoint) Masked() Endpoint {
	hide := func(p *Password) *Password {
		if p == nil {
			return nil
		}
		c := *p
		if c.Password != "" {
			c.Password = Mask
		}
		return &c
	}
	e.Auth.Basic, e.Auth.Digest = hide(e.Auth.Basic), hide(e.Auth.Digest)
	if e.Auth.Bearer != nil {
		b := *e.Auth.Bearer
		if b.Token != "" {
			b.Token = Mask
		}
		e.Auth.Bearer = &b
	}
	e.Headers = MaskHeaders(e.Headers)
	return e
}

// maskedValue follows the names of the parameters in a masked URL.
const maskedValue = "=…"

// MaskedURL returns a URL without what may be a secret: the values in its query, except a place for one.
func MaskedURL(address string) string {
	at, query, ok := strings.Cut(address, "?")
	if !ok {
		return address
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		if name, value, _ := strings.Cut(pair, "="); value != "" && value != "{version}" {
			pairs[i] = name + maskedValue
		}
	}
	return at + "?" + strings.Join(pairs, "&")
}

// MaskHeaders returns header fields with their values replaced by "(set)".
func MaskHeaders(h map[string]string) map[string]string {
	if len(h) == 0 {
		return h
	}
	m := map[string]string{}
	for k := range h {
		m[k] = Mask
	}
	return m
}

// provides reports whether a service, spelled as in the normal form, is one of
// the endpoint's own services: an IRI, or a name with a prefix that the
// endpoint declares.
func (e Endpoint) provides(service string) bool {
	return slices.ContainsFunc(e.OwnServices, func(own string) bool { return service == own || service == "<"+own+">" })
}
