package registry

import (
	"net/url"
	"reflect"
	"strings"
	"time"
)

// An Endpoint is a SPARQL 1.1 Protocol service that Freshet does not control,
// with the settings that say when and how it is asked. The names are those of
// the configuration file and the API.
type Endpoint struct {
	Name            string            `json:"name" yaml:"name"`
	URL             string            `json:"url" yaml:"url"`
	Slot            string            `json:"slot" yaml:"slot"`     // cron spec, "@every 10s", or "never" (only on request)
	Budget          Duration          `json:"budget" yaml:"budget"` // K: execution seconds in one slot
	Policy          string            `json:"policy" yaml:"policy"`
	Rule            string            `json:"rule" yaml:"rule"` // strict or debt
	FallbackPolicy  string            `json:"fallback_policy" yaml:"fallback_policy"`
	ProfileShare    float64           `json:"profile_share" yaml:"profile_share"`
	Merge           string            `json:"merge" yaml:"merge"`                 // how queries that differ in constants only are asked together
	Shadows         []string          `json:"shadows" yaml:"shadows"`             // policies to compare with Policy on the records
	TimeoutParam    string            `json:"timeout_param" yaml:"timeout_param"` // the endpoint's parameter for a time limit in milliseconds
	AllowService    bool              `json:"allow_service" yaml:"allow_service"`
	OwnServices     []string          `json:"own_services" yaml:"own_services"` // services that SERVICE may name without AllowService
	AllowPublic     bool              `json:"allow_public" yaml:"allow_public"` // every holder may publish its queries
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
	a, err1 := url.Parse(was.URL)
	b, err2 := url.Parse(now.URL)
	return err1 != nil || err2 != nil || !strings.EqualFold(a.Host, b.Host) || strings.EqualFold(a.Scheme, "https") && !strings.EqualFold(b.Scheme, "https")
}

// hostOf is the lower-case host and port of a URL.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return strings.ToLower(u.Host)
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
	DefaultMerge  = MergeOff
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
	e.Slot, e.Budget, e.Policy, e.Rule, e.FallbackPolicy, e.ProfileShare, e.Shadows, e.Blackout, e.Pause, e.AllowPublic, e.OwnServices, e.Merge = "", 0, "", "", "", 0, nil, nil, nil, false, nil, ""
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
	setDefault(&e.Budget, DefaultBudget)
	setDefault(&e.Policy, DefaultPolicy)
	setDefault(&e.Rule, "strict")
	setDefault(&e.FallbackPolicy, DefaultPolicy)
	setDefault(&e.ProfileShare, 0.5)
	setDefault(&e.Merge, DefaultMerge)
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
