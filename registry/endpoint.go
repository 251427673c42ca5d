package registry

import (
	"net/url"
	"reflect"
	"strings"
	"time"
)

// An Endpoint is a SPARQL 1.1 Protocol service that we do not control, with
// the settings that say how it is asked. Names are those of the configuration
// file and of the API.
type Endpoint struct {
	Name            string            `json:"name" yaml:"name"`
	URL             string            `json:"url" yaml:"url"`
	Slot            string            `json:"slot" yaml:"slot"`     // cron spec, "@every 10s", or "never" (only by tick)
	Budget          Duration          `json:"budget" yaml:"budget"` // K: execution seconds in one slot
	Policy          string            `json:"policy" yaml:"policy"`
	Rule            string            `json:"rule" yaml:"rule"` // strict or debt
	FallbackPolicy  string            `json:"fallback_policy" yaml:"fallback_policy"`
	ProfileShare    float64           `json:"profile_share" yaml:"profile_share"`
	Shadows         []string          `json:"shadows" yaml:"shadows"`             // policies that are compared with Policy over what is recorded
	TimeoutParam    string            `json:"timeout_param" yaml:"timeout_param"` // name of the endpoint's own limit in milliseconds
	AllowService    bool              `json:"allow_service" yaml:"allow_service"`
	OwnServices     []string          `json:"own_services" yaml:"own_services"` // what SERVICE may name although AllowService is off
	AllowPublic     bool              `json:"allow_public" yaml:"allow_public"` // every holder may publish its queries
	Concurrency     int               `json:"concurrency" yaml:"concurrency"`
	Timeout         Duration          `json:"timeout" yaml:"timeout"` // one execution
	MinGap          Duration          `json:"min_gap" yaml:"min_gap"` // between the end of one request and the start of the next
	Blackout        []Blackout        `json:"blackout" yaml:"blackout"`
	MaxRows         int               `json:"max_rows" yaml:"max_rows"` // the endpoint's known cap, 0 for none
	MaxBytes        Size              `json:"max_bytes" yaml:"max_bytes"`
	MaxColumns      int               `json:"max_columns" yaml:"max_columns"` // variables of a result
	DefaultGraphURI []string          `json:"default_graph_uri" yaml:"default_graph_uri"`
	NamedGraphURI   []string          `json:"named_graph_uri" yaml:"named_graph_uri"`
	Headers         map[string]string `json:"headers" yaml:"headers"`
	Auth            Auth              `json:"auth,omitzero" yaml:"auth"`
	Pause           *Pause            `json:"pause,omitempty" yaml:"-"`
}

// A Blackout is a time in which no slot starts: a cron spec and a length.
type Blackout struct {
	Start string   `json:"start" yaml:"start"`
	For   Duration `json:"for" yaml:"for"`
}

// Auth is how we sign in at an endpoint; at most one of the three.
type Auth struct {
	Basic  *Password `json:"basic,omitempty" yaml:"basic,omitempty"`
	Digest *Password `json:"digest,omitempty" yaml:"digest,omitempty"`
	Bearer *Bearer   `json:"bearer,omitempty" yaml:"bearer,omitempty"`
}

// A Password is given in place or, better, as a file that holds it.
type Password struct {
	Username     string `json:"username" yaml:"username"`
	Password     string `json:"password,omitempty" yaml:"password,omitempty"`
	PasswordFile string `json:"password_file,omitempty" yaml:"password_file,omitempty"`
}

// A Bearer token is given in place or, better, as a file that holds it.
type Bearer struct {
	Token     string `json:"token,omitempty" yaml:"token,omitempty"`
	TokenFile string `json:"token_file,omitempty" yaml:"token_file,omitempty"`
}

// Health is what recent executions say of an endpoint. It is persisted, so
// that a restart does not forget a Retry-After.
type Health struct {
	State string    `json:"state"` // healthy, failing or throttled
	Since time.Time `json:"since,omitzero"`
	// Until is before when nothing is asked: throttled, because the endpoint wants
	// that; failing, until the next probe. One that fails and is asked as usual has
	// none.
	Until      time.Time `json:"until,omitzero"`
	Failures   int       `json:"failures"`             // in a row, of the endpoint itself
	Incomplete int       `json:"incomplete,omitempty"` // executions in a row that were not complete, for whatever reason
	Error      string    `json:"error,omitempty"`      // the endpoint's last words on it
	// MaxRows is the cap that it last told of, 0 = none.
	MaxRows int `json:"max_rows,omitempty"`
}

// AfterEdit is what remains of it when the settings are edited: nothing for another
// server, no cap for another URL or another cap in the settings, and no executions
// that were not complete where the next ones are other ones.
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

// LeavesHost says whether an edit of the URL leads to where the secrets of the
// settings before must not go by themselves: another host or port, or the same
// without TLS.
func LeavesHost(was, now Endpoint) bool {
	a, err1 := url.Parse(was.URL)
	b, err2 := url.Parse(now.URL)
	return err1 != nil || err2 != nil || !strings.EqualFold(a.Host, b.Host) || strings.EqualFold(a.Scheme, "https") && !strings.EqualFold(b.Scheme, "https")
}

// hostOf is the server of a URL, which http and https may share.
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
	HealthThrottled = "throttled" // it asked us to wait
	HealthFailing   = "failing"   // it does not answer, or nothing that it answers is complete
)

// HealthStates lists them.
func HealthStates() []string { return []string{Healthy, HealthThrottled, HealthFailing} }

// Defaults of settings that the file or the API leave out.
const (
	DefaultSlot   = "@every 1m"
	DefaultBudget = Duration(10 * time.Second)
	DefaultPolicy = "hybrid"
	// DefaultMaxColumns is more than any table has that somebody reads, and few
	// enough that what a row costs by its head alone stays small.
	DefaultMaxColumns = 10_000
)

// RequestSettings is the part of the settings that decides how a request is made and what
// its answer means. The rest is about when, and how much.
func (e Endpoint) RequestSettings() Endpoint {
	e.Slot, e.Budget, e.Policy, e.Rule, e.FallbackPolicy, e.ProfileShare, e.Shadows, e.Blackout, e.Pause, e.AllowPublic, e.OwnServices = "", 0, "", "", "", 0, nil, nil, nil, false, nil
	return e
}

// RequestsDiffer says whether executions under the new settings may end otherwise
// than under the old: because of how they are made, or of the time they have.
func RequestsDiffer(was, now Endpoint) bool {
	return was.Budget != now.Budget || was.Rule != now.Rule || !reflect.DeepEqual(was.RequestSettings(), now.RequestSettings())
}

// WithDefaults fills what was left out.
func (e Endpoint) WithDefaults() Endpoint {
	setDefault(&e.Slot, DefaultSlot)
	setDefault(&e.Budget, DefaultBudget)
	setDefault(&e.Policy, DefaultPolicy)
	setDefault(&e.Rule, "strict")
	setDefault(&e.FallbackPolicy, DefaultPolicy)
	setDefault(&e.ProfileShare, 0.5)
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
