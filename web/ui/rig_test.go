package ui

import (
	"cmp"
	"context"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/people"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/registrytest"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/shadow"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/web"
)

// A rig holds the pages with the real store, registry and slot loops. Only the endpoint is simulated:
// it answers as the test specifies.
type rig struct {
	t       *testing.T
	store   *store.DB
	reg     *registry.Registry
	daemon  *scheduler.Manager
	hub     *notify.Waker
	gate    *web.TokenGate
	pages   *Server
	server  *httptest.Server
	oracle  *oracle
	browser *http.Client
	quiet   bool         // requests do not invalidate the indexes
	contact bool         // public endpoints need a contact, and none is set
	adds    bool         // endpoints that pages add run
	full    *atomic.Bool // loops cannot record anything
}

// An oracle answers queries with results that a test sets.
type oracle struct {
	mu      sync.Mutex
	results map[string]*diff.Result // by query id
	usual   *diff.Result            // of other queries, nil for an empty one
	failure string
	takes   time.Duration // 0: 20 ms
	health  registry.Health
	refused map[string]string // by query id
	outcome registry.Outcome  // of a failure
	age     time.Duration     // the Age of its answers
}

func (o *oracle) Execute(_ context.Context, q *registry.Query, _ scheduler.Memory, _ time.Duration) scheduler.Answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if why := o.refused[q.ID]; why != "" {
		return scheduler.Answer{Outcome: registry.Rejected, Error: why, Elapsed: 20 * time.Millisecond}
	}
	if o.failure != "" {
		return scheduler.Answer{Outcome: cmp.Or(o.outcome, registry.Failed), Error: o.failure, Elapsed: 20 * time.Millisecond}
	}
	r := cmp.Or(o.results[q.ID], o.usual)
	if r == nil {
		b := diff.NewBuilder(q.Form, diff.Options{Ordered: q.Ordered})
		switch q.Form {
		case diff.Select:
			b.SetVars([]string{"s", "o"})
		case diff.Ask:
			b.SetBoolean(true)
		}
		var err error
		if r, err = b.Finish(); err != nil {
			return scheduler.Answer{Outcome: registry.Failed, Error: err.Error()}
		}
	}
	return scheduler.Answer{Outcome: registry.Changed, Result: r, Age: o.age, Elapsed: cmp.Or(o.takes, 20*time.Millisecond)}
}

func (o *oracle) Health() registry.Health {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.health.State == "" {
		return registry.Health{State: registry.Healthy}
	}
	return o.health
}

func (o *oracle) set(id string, r *diff.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.results[id] = r
}

// refuse makes the endpoint refuse a query.
func (o *oracle) refuse(id, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused = map[string]string{id: why}
}

// partial makes the endpoint answer with incomplete results only.
func (o *oracle) partial(why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failure, o.outcome = why, registry.Partial
}

// waits makes the endpoint ask for a pause.
func (o *oracle) waits(why string, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.health = registry.Health{State: registry.HealthThrottled, Error: why, Since: time.Now(), Until: time.Now().Add(wait)}
}

func (o *oracle) fail(why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failure = why
	o.health = registry.Health{State: registry.Healthy}
	if why != "" {
		o.health = registry.Health{State: registry.HealthFailing, Error: why, Since: time.Now().Add(-time.Hour), Failures: 5}
	}
}

func newRig(t *testing.T, tokens ...registry.Token) *rig {
	t.Helper()
	return newRigWith(t, func(*rig, *Config) {}, tokens...)
}

// configOf returns the configuration of a server without alert rules and without other nodes.
func configOf(tb testing.TB, reg *registry.Registry, gate *web.TokenGate, db *store.DB, daemon *scheduler.Manager) web.Config {
	letters, err := deliver.New(notifytest.Delivering(deliver.Options{Store: db.Subscriptions}))
	if err != nil {
		tb.Fatal(err)
	}
	return web.Config{Registry: reg, Gate: gate, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Queries: db.Catalog, History: db.History, Backup: db.Backup,
		Daemon: daemon, Hint: daemon.Hint, Merging: daemon, ChangeFeeds: &fixedFeeds{},
		Shadows:  shadow.NewComparer(daemon, db.Ledger).Compare,
		Profiles: db.Rounds, NextRound: daemon.NextRound, Following: func(string) int { return 0 },
		Rechecked:     func() <-chan struct{} { return nil },
		Feed:          func(*registry.Query, *watch.Watch, watch.Namer, url.Values) (web.Feed, error) { return web.Feed{}, nil },
		ChangeJSON:    func(c registry.Change) ([]byte, error) { return notify.MarshalChange(c, notify.Format{}) },
		Subscriptions: followers{db.Subscriptions}, DeadLetters: letters, Receivers: &told{}, Quiet: people.Due,
		Labels:    web.NewLabels(reg, daemon, time.Now),
		Documents: &counting{Documents: notify.NewDocuments()},
		Health:    condition{&registry.Storage{Free: -1}},
		Check: func(context.Context, registry.Endpoint) (registry.Report, error) {
			return registry.Report{Answers: true}, nil
		},
		Site: web.Site{PublicURL: "http://127.0.0.1:8080", Listen: "127.0.0.1:8080", Version: "0.0-test"}}
}

// newRigWith lets a test change the configuration.
func newRigWith(t *testing.T, edit func(*rig, *Config), tokens ...registry.Token) *rig {
	t.Helper()
	r := &rig{t: t, hub: notify.NewWaker(), oracle: &oracle{results: map[string]*diff.Result{}}, full: new(atomic.Bool)}
	var err error
	if r.store, err = store.Open(t.TempDir(), store.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.store.Close() })
	r.daemon = scheduler.NewManager(scheduler.Config{Ledger: r.store.Ledger, Wake: func(notes []scheduler.Note) {
		for _, n := range notes {
			r.hub.Wake(n.Query)
		}
	}, Writable: func() error {
		if r.full.Load() {
			return registry.ErrReadOnly
		}
		return nil
	}})
	if r.reg, err = registry.Open(registrytest.Twice(registry.Config{Queries: r.store.Queries, Endpoints: r.store.Endpoints,
		Profiles: r.store.Profiles, SlotInterval: scheduler.Gap, Check: r.check, EndpointEdited: func(name string) {
			if e, err := r.reg.Endpoint(name); err == nil {
				if r.daemon.Update(e, nil) != nil && r.adds { // otherwise the test adds endpoints that do not run yet
					_ = r.daemon.Add(e, r.oracle)
				}
			}
		}})); err != nil {
		t.Fatal(err)
	}
	if r.gate, err = web.NewTokenGate(tokens, r.store.Tokens, time.Now); err != nil {
		t.Fatal(err)
	}
	all := Config{Config: configOf(t, r.reg, r.gate, r.store, r.daemon), Managing: managing(),
		Follow: func() (<-chan struct{}, func()) {
			f := r.hub.FollowAll()
			return f.C(), f.Close
		}}
	all.Rules = r.rules()
	edit(r, &all)
	if r.pages, err = New(all); err != nil {
		t.Fatal(err)
	}
	all.Pages = r.pages
	h, err := web.New(all.Config)
	if err != nil {
		t.Fatal(err)
	}
	r.server = httptest.NewServer(h)
	t.Cleanup(r.server.Close)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- r.daemon.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.pages.Close)
	r.browser = browser(t)
	return r
}

// check validates an endpoint like the program does.
func (r *rig) check(e registry.Endpoint) error {
	if r.contact && publicHost(e) {
		return errContact
	}
	return scheduler.Validate(e)
}

// browser returns a client that keeps cookies and does not follow redirects, so that a test sees each.
func browser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// endpoint adds an endpoint whose slots run only when the test requests them.
func (r *rig) endpoint(name string) {
	r.t.Helper()
	e, err := r.reg.CreateEndpoint(admin, registry.Endpoint{Name: name, URL: "http://127.0.0.1:3030/sparql", Slot: "never", Policy: "rr"})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.daemon.Add(e, r.oracle); err != nil {
		r.t.Fatal(err)
	}
}

var admin = registry.Caller{Name: "ops", Role: registry.RoleAdmin}

// register stores a query under any name, including names that only earlier versions accepted.
func (r *rig) register(endpoint, name, text string, tags ...string) registry.Query {
	r.t.Helper()
	q, _, err := r.reg.Register(admin, registry.Registration{Endpoint: endpoint, Text: text, Tags: tags})
	if err != nil {
		r.t.Fatal(err)
	}
	q, err = r.store.Queries.EditQuery(q.ID, func(q *registry.Query, _ bool) error {
		for i := range q.Holders {
			if q.Holders[i].Caller == admin.Name {
				q.Holders[i].Name = name
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return q
}

func (r *rig) tick(endpoint string) scheduler.Slot {
	r.t.Helper()
	s, err := r.daemon.Tick(context.Background(), endpoint)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// A response is a completely read response.
type response struct {
	*http.Response
	body string
	t    *testing.T
}

func (r *rig) do(method, path string, form url.Values, headers ...string) *response {
	r.t.Helper()
	if !r.quiet {
		r.pages.catalogue.drop()
		if t, ok := r.pages.Rules.(*sharedTotals); ok {
			t.drop()
		}
		r.pages.profiles.drop()
	}
	req, err := http.NewRequest(method, r.server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,*/*")
	if method == "POST" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := r.browser.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	a := &response{res, string(b), r.t}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		a.wellBuilt()
	}
	return a
}

func (r *rig) get(path string, headers ...string) *response {
	return r.do("GET", path, nil, headers...)
}

func (r *rig) post(path string, pairs ...string) *response {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return r.do("POST", path, form)
}

// follow requests the target of a redirect.
func (r *rig) follow(a *response) *response {
	r.t.Helper()
	a.status(303)
	return r.get(a.Header.Get("Location"))
}

func (a *response) status(want int) *response {
	a.t.Helper()
	if a.StatusCode != want {
		a.t.Fatalf("%s %s: status %d, want %d: %.600s", a.Request.Method, a.Request.URL, a.StatusCode, want, a.body)
	}
	return a
}

func (a *response) has(words ...string) *response {
	a.t.Helper()
	for _, w := range words {
		if !strings.Contains(a.body, w) {
			a.t.Errorf("%s has no %q in\n%s", a.Request.URL, w, a.main())
		}
	}
	return a
}

func (a *response) lacks(words ...string) *response {
	a.t.Helper()
	for _, w := range words {
		if strings.Contains(a.body, w) {
			a.t.Errorf("%s has %q in\n%s", a.Request.URL, w, a.main())
		}
	}
	return a
}

// main returns the page's content within its frame.
func (a *response) main() string {
	_, s, ok := strings.Cut(a.body, "<main")
	if !ok {
		return a.body
	}
	return s
}

var (
	tag    = regexp.MustCompile(`<(/?)([a-zA-Z0-9]+)([^>]*)>`)
	ids    = regexp.MustCompile(`\sid="([^"]*)"`)
	void   = map[string]bool{"meta": true, "link": true, "input": true, "br": true, "hr": true, "img": true}
	quoted = regexp.MustCompile(`"[^"]*"`)
	inner  = regexp.MustCompile(`(?i)\s(style|on[a-z]+)\s*=`)
)

// wellBuilt checks a page against its content security policy and the design: balanced
// elements, unique ids, no inline script, style or handler, no other host.
func (a *response) wellBuilt() {
	a.t.Helper()
	if got := a.Header.Get("Content-Security-Policy"); got != contentPolicy || strings.Contains(got, "unsafe") {
		a.t.Errorf("%s: policy %q", a.Request.URL, got)
	}
	var open []string
	for _, m := range tag.FindAllStringSubmatch(a.body, -1) {
		name, closes := strings.ToLower(m[2]), m[1] == "/"
		switch {
		case void[name] || strings.HasSuffix(m[3], "/"):
		case !closes:
			open = append(open, name)
		case len(open) == 0 || open[len(open)-1] != name:
			a.t.Fatalf("%s: </%s> closes %v", a.Request.URL, name, open)
		default:
			open = open[:len(open)-1]
		}
		if inner.MatchString(quoted.ReplaceAllString(m[3], `""`)) {
			a.t.Errorf("%s: style or handler in <%s%s>", a.Request.URL, m[2], m[3])
		}
		if name == "script" && !closes && !strings.Contains(m[3], `src="/ui/static/`) {
			a.t.Errorf("%s: a script inside: %s", a.Request.URL, m[0])
		}
	}
	if len(open) > 0 {
		a.t.Errorf("%s: never closed: %v", a.Request.URL, open)
	}
	seen := map[string]bool{}
	for _, m := range ids.FindAllStringSubmatch(a.body, -1) {
		if seen[m[1]] {
			a.t.Errorf("%s: id %q twice", a.Request.URL, m[1])
		}
		seen[m[1]] = true
	}
	if strings.Contains(a.body, "ZgotmplZ") || strings.Contains(a.body, "%!") || strings.Contains(a.body, "<no value>") {
		a.t.Errorf("%s: a template went wrong: %s", a.Request.URL, a.main())
	}
}

// rendered returns a part of a page as text.
func rendered(t *testing.T, look, part string, data any) string {
	t.Helper()
	looks, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := looks[look].ExecuteTemplate(&b, part, data); err != nil {
		t.Fatal(err)
	}
	return html.UnescapeString(b.String())
}

func iri(s string) diff.Term { return diff.Term{Kind: diff.IRI, Value: "http://example.org/" + s} }

func lit(s string) diff.Term { return diff.Term{Kind: diff.Literal, Value: s} }

// table returns a SELECT result over ?s and ?o.
func table(t *testing.T, rows ...[2]diff.Term) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	b.SetVars([]string{"s", "o"})
	for _, r := range rows {
		b.Row(r[0], r[1])
	}
	res, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

const selectText = "SELECT ?s ?o WHERE { ?s <http://example.org/p> ?o }"
