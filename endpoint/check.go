package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
)

// Bounds of Check.
const (
	MaxCheckRequests = 20
	CheckGap         = time.Second // between two requests to a public host, unless min_gap is longer
	checkTimeout     = 30 * time.Second
	checkRows        = 10_000 // the row cap that Check looks for, and the usual one
)

// Check tries an endpoint with at most MaxCheckRequests small requests, one at a time
// and at a public host CheckGap apart, and proposes settings. It stops early if the endpoint
// does not answer or asks for a pause. Errors are about the settings or the context.
func Check(ctx context.Context, e registry.Endpoint, o Options) (registry.Report, error) {
	e.Concurrency = 1
	if e.Timeout == 0 {
		e.Timeout = registry.Duration(checkTimeout)
	}
	e.MaxBytes = max(e.MaxBytes, 16<<20)
	client, err := New(e, o)
	if err != nil {
		return registry.Report{}, err
	}
	defer client.Close()
	c := &checker{Client: client, transport: &pacedTransport{next: client.http.Transport, gap: client.gate.gap},
		report: registry.Report{URL: e.URL, Findings: []registry.Finding{}, Settings: []registry.Proposal{}}}
	client.http.Transport = c.transport
	for _, step := range []func(context.Context) error{c.answers, c.formats, c.conditional, c.protocol, c.rows, c.features} {
		if err := step(ctx); errors.Is(err, errStopped) {
			break
		} else if err != nil {
			return c.report, err
		}
	}
	if c.report.Answers {
		c.propose(!registry.PrivateHost(hostname(client.base)))
	}
	return c.report, ctx.Err()
}

// errStopped ends a check whose report is complete.
var errStopped = errors.New("the check ended early")

type checker struct {
	*Client
	transport *pacedTransport
	report    registry.Report
	took      []time.Duration // of the complete answers
	server    string          // its header Server
	cap       int             // rows, 0 if none was found
	merges    bool            // answers requests for several queries
	failures  int             // in a row, without an answer
}

// A pacedTransport counts and spaces out all requests of a check. Redirects and answers
// to challenges are requests of their own.
type pacedTransport struct {
	next http.RoundTripper
	gap  time.Duration
	sent int
	last time.Time
	url  *url.URL // of the last request
}

func (p *pacedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.sent == MaxCheckRequests {
		return nil, errStopped
	}
	gap := p.gap
	if !registry.PrivateHost(r.URL.Hostname()) {
		gap = max(gap, CheckGap)
	}
	if err := Sleep(r.Context(), gap-time.Since(p.last)); err != nil {
		return nil, err
	}
	p.sent++
	p.last, p.url = time.Now(), r.URL
	return p.next.RoundTrip(r)
}

// A reply is a judged answer with its header.
type reply struct {
	verdict
	header http.Header
	memory Memory
}

func (c *checker) found(topic string, ok bool, detail string) {
	c.report.Findings = append(c.report.Findings, registry.Finding{Topic: topic, OK: ok, Detail: detail})
}

// ask sends one request. accept replaces the usual media types unless it is "".
func (c *checker) ask(ctx context.Context, text, accept string, m Memory) (reply, error) {
	q := &registry.Query{ID: "check", Text: text, Normal: text, Limit: -1, Form: diff.Form(strings.Fields(text)[0])}
	if a, err := sparql.Analyse(text); err == nil {
		q.Form, q.Limit = diff.Form(a.Form), a.Limit
	}
	if err := c.gate.acquire(ctx); err != nil {
		return reply{}, err
	}
	defer c.gate.release(true)
	t := clockIn(ctx, time.Duration(c.settings.Timeout), time.Duration(c.settings.Timeout))
	defer t.cancel()
	r, err := c.newRequest(q, t.length)
	if err != nil {
		return reply{}, err
	}
	if accept != "" {
		r.template.Header["Accept"] = []string{accept}
	}
	m = r.recall(m)
	x, err := c.exchange(t, r, m)
	defer c.release(x)
	c.report.Requests = c.transport.sent
	if errors.Is(err, errStopped) {
		c.found("goes on answering", false, fmt.Sprintf("the check ended after %d requests", MaxCheckRequests))
		return reply{}, errStopped
	}
	v := c.judge(x, err, q, r, m, t)
	v.status = x.status
	if ctx.Err() != nil {
		return reply{}, ctx.Err()
	}
	if v.Outcome.Complete() {
		c.took = append(c.took, t.elapsed())
	}
	if c.failures++; x.status != 0 {
		c.failures = 0
	}
	if v.Outcome == registry.Throttled || c.failures == 3 {
		c.found("goes on answering", false, v.Error)
		return reply{}, errStopped
	}
	return reply{v, x.header, v.Memory}, nil
}

func (c *checker) answers(ctx context.Context) error {
	r, err := c.ask(ctx, "ASK { ?s ?p ?o }", "", Memory{})
	if err != nil {
		return err
	}
	detail := r.Error
	if c.report.Answers = r.Outcome.Complete(); c.report.Answers {
		c.server = r.header.Get("Server")
		detail = "in " + c.took[0].Round(time.Millisecond).String()
		if c.server != "" {
			detail += ", by " + c.server
		}
	}
	c.found("answers SPARQL", c.report.Answers, detail)
	if !c.report.Answers {
		return errStopped
	}
	c.moved()
	return nil
}

// moved goes on at the address to which the endpoint redirects.
func (c *checker) moved() {
	at := *c.transport.url
	at.RawQuery, at.User = "", nil
	from, err := url.Parse(c.base)
	if err != nil || at.Scheme == from.Scheme && at.Host == from.Host && at.Path == from.Path {
		return
	}
	at.RawQuery = from.RawQuery
	c.base = at.String()
	c.report.URL = c.base
	c.found("answers without redirects", false, "it redirects to "+c.base+", so use that URL")
}

const (
	someRows  = "SELECT ?s ?p ?o WHERE { ?s ?p ?o } LIMIT 3"
	someGraph = "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o } LIMIT 3"
)

func (c *checker) formats(ctx context.Context) error {
	for _, f := range []struct{ name, text, accept string }{
		{"results in JSON", someRows, "application/sparql-results+json"},
		{"results in XML", someRows, "application/sparql-results+xml"},
		{"graphs in N-Triples", someGraph, "application/n-triples"},
		{"graphs in Turtle", someGraph, "text/turtle"},
	} {
		r, err := c.ask(ctx, f.text, f.accept, Memory{})
		if err != nil {
			return err
		}
		media, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
		switch {
		case !r.Outcome.Complete():
			c.found(f.name, false, r.Error)
		case media != f.accept:
			c.found(f.name, false, "it answers with "+media)
		default:
			c.found(f.name, true, "")
		}
	}
	return nil
}

// conditional repeats a request with the validators of its answer.
func (c *checker) conditional(ctx context.Context) error {
	first, err := c.ask(ctx, someRows, "", Memory{})
	if err != nil {
		return err
	}
	if first.memory.ETag == "" && first.memory.LastModified == "" {
		c.found("conditional requests", false, "it sends neither ETag nor a Last-Modified that is older than the answer")
		return nil
	}
	r, err := c.ask(ctx, someRows, "", first.memory)
	if err != nil {
		return err
	}
	c.found("conditional requests", r.status == http.StatusNotModified, fmt.Sprintf("status %d", r.status))
	return nil
}

// protocol tries a query that is too long for a URL, and one that is wrong.
func (c *checker) protocol(ctx context.Context) error {
	r, err := c.ask(ctx, "SELECT ?x WHERE { VALUES ?x { "+strings.Repeat(`"long" `, longestGET/4)+"} } LIMIT 1", "", Memory{})
	if err != nil {
		return err
	}
	c.found("long queries by POST", r.Outcome.Complete(), r.Error)
	r, err = c.ask(ctx, "SELECT ?x WHERE { ?x", "", Memory{})
	if err != nil {
		return err
	}
	detail := r.Error
	if r.Outcome.Complete() {
		detail = "it answers a query that is not SPARQL"
	}
	c.found("clear errors", r.Outcome == registry.Rejected, detail)
	return nil
}

// rows looks for a cap on the number of rows.
func (c *checker) rows(ctx context.Context) error {
	const most = checkRows + 1
	r, err := c.ask(ctx, fmt.Sprintf("SELECT ?s WHERE { ?s ?p ?o } LIMIT %d", most), "", Memory{})
	if err != nil {
		return err
	}
	if told := number(r.header.Get("X-Sparql-Maxrows")); told > 0 {
		c.cap = int(told)
		c.found("no row cap", false, fmt.Sprintf("it reports a cap of %d rows", told))
		return nil
	}
	if !r.Outcome.Complete() || r.Result == nil {
		c.found("no row cap", false, "not known: "+r.Error)
		return nil
	}
	n := r.Result.Len()
	if n >= most {
		c.found("no row cap", true, fmt.Sprintf("up to %d rows", n))
		return nil
	}
	count, err := c.ask(ctx, fmt.Sprintf("SELECT (COUNT(*) AS ?n) WHERE { { SELECT ?s WHERE { ?s ?p ?o } LIMIT %d } }", most), "", Memory{})
	if err != nil {
		return err
	}
	if !count.Outcome.Complete() || count.Result == nil || count.Result.Len() != 1 || len(count.Result.Vars()) != 1 {
		c.found("no row cap", false, "not known: "+count.Error)
		return nil
	}
	if all := number(count.Result.Terms(0)[0].Value); all > int64(n) {
		c.cap = n
		c.found("no row cap", false, fmt.Sprintf("it sends %d of %d rows, and does not say so", n, all))
		return nil
	}
	c.found("no row cap", true, fmt.Sprintf("it has %d triples only", n))
	return nil
}

func (c *checker) features(ctx context.Context) error {
	for _, f := range []struct {
		name, text string
		rows       int // -1: any number
	}{
		{"VALUES", "SELECT ?x WHERE { VALUES ?x { 1 2 } }", 2},
		{"aggregates", "SELECT (COUNT(*) AS ?n) WHERE { VALUES ?x { 1 2 3 } }", 1},
		{"sub-selects", "SELECT ?x WHERE { { SELECT ?x WHERE { VALUES ?x { 1 } } } }", 1},
		{"property paths", "SELECT ?o WHERE { <urn:freshet:a> <urn:freshet:b>/<urn:freshet:c> ?o }", 0},
		{"NOT EXISTS", "SELECT ?x WHERE { VALUES ?x { <urn:freshet:a> } FILTER NOT EXISTS { ?x <urn:freshet:b> ?y } }", 1},
		{mergedRequests, "SELECT ?i ?p WHERE { VALUES ( ?i ?s ) { ( 0 <urn:freshet:a> ) ( 1 <urn:freshet:b> ) } ?s ?p ?o }", 0},
	} {
		r, err := c.ask(ctx, f.text, "", Memory{})
		if err != nil {
			return err
		}
		ok, detail := r.Outcome.Complete(), r.Error
		if ok && r.Result != nil && r.Result.Len() != f.rows {
			ok, detail = false, fmt.Sprintf("%d rows instead of %d", r.Result.Len(), f.rows)
		}
		c.merges = c.merges || ok && f.name == mergedRequests
		c.found(f.name, ok, detail)
	}
	return nil
}

const mergedRequests = "requests for several queries"

// propose derives settings from the findings.
func (c *checker) propose(public bool) {
	set := func(name string, value any, why string) {
		c.report.Settings = append(c.report.Settings, registry.Proposal{Name: name, Value: value, Why: why})
	}
	slowest := slices.Max(c.took)
	budget := registry.DefaultBudget
	if public {
		budget = registry.Duration(30 * time.Second)
		set("slot", "@every 5m", "a conservative choice for a public endpoint")
		set("min_gap", CheckGap.String(), "a conservative choice for a public endpoint")
	}
	if need := registry.Duration(4 * slowest.Round(time.Second)); need > budget {
		budget = min(need, registry.Duration(time.Minute))
	}
	if budget != registry.DefaultBudget {
		set("budget", budget.String(), fmt.Sprintf("the slowest answer took %s", slowest.Round(time.Millisecond)))
	}
	if c.cap > 0 {
		set("max_rows", c.cap, "its row cap")
	}
	if strings.HasPrefix(c.server, "Virtuoso") {
		set("timeout_param", "timeout", "Virtuoso's parameter for a time limit")
	}
	if !c.merges {
		set("merge", registry.MergeOff, "it did not answer a request for several queries")
	}
}

func hostname(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
