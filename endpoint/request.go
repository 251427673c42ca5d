package endpoint

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knakk/sparql"
	"github.com/zeebo/xxh3"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// longestGET is the maximum length in bytes of a URL that is sent by GET. GET
// can be cached and validated, but proxies and servers refuse long URLs.
const longestGET = 2000

// The Accept headers. Formats that show their own end have the highest q,
// except that N-Triples is by far the cheapest for graphs. Requests share the
// lists.
var (
	acceptRows = []string{"application/sparql-results+json, application/sparql-results+xml;q=0.6, application/json;q=0.3, " +
		"application/xml;q=0.2"}
	acceptGraph = []string{"application/n-triples, text/turtle;q=0.7, text/plain;q=0.2"}
	acceptGzip  = []string{"gzip"}
)

func acceptFor(f diff.Form) []string {
	if f.Graph() {
		return acceptGraph
	}
	return acceptRows
}

// A call is one SPARQL Protocol query operation. It builds requests as
// knakk/sparql does: its GenericCall encodes the query; graphs, time limit,
// method and headers are added here.
type call struct {
	sparql.GenericCall
	more   url.Values // parameters besides query
	accept []string
}

var _ sparql.Provider = call{}

// GenRequest builds the request: GET if the URL is short enough, else a form by
// POST. It never uses an application/sparql-query body, on which Virtuoso
// hangs.
func (k call) GenRequest(endpoint string) (*http.Request, error) {
	req, err := k.GenericCall.GenRequest(endpoint)
	if err != nil {
		return nil, err
	}
	form := make([]byte, req.ContentLength)
	if _, err := io.ReadFull(req.Body, form); err != nil {
		return nil, err
	}
	if len(k.more) > 0 {
		form = append(append(form, '&'), k.more.Encode()...)
	}
	if len(endpoint)+1+len(form) <= longestGET {
		req.Method, req.Body, req.GetBody, req.ContentLength = http.MethodGet, nil, nil, 0
		if strings.Contains(endpoint, "?") {
			req.URL.RawQuery += "&" + string(form)
		} else {
			req.URL.RawQuery = string(form)
		}
		req.Header = http.Header{"Accept": k.accept}
		return req, nil
	}
	req, err = http.NewRequest(http.MethodPost, endpoint, bytes.NewReader(form))
	if err != nil {
		return nil, err
	}
	// A query is safe to repeat on a new connection if the kept one was closed. An
	// empty Idempotency-Key tells net/http so and is not sent.
	req.Header = http.Header{"Accept": k.accept, "Content-Type": {"application/x-www-form-urlencoded"}, "Idempotency-Key": {}}
	return req, nil
}

// A request is a call that is ready to be sent, repeatedly if necessary.
type request struct {
	template *http.Request
	identity string // of the question; validators belong to it
	weak     int    // how often in a row the weak ETag that is sent was confirmed
}

// newRequest prepares the request for q. limit is passed on to endpoints that
// accept one. It is not part of the identity because it does not change a
// complete answer.
func (c *Client) newRequest(q *registry.Query, limit time.Duration) (*request, error) {
	e := &c.settings
	more := c.dataset(q)
	identity := c.identity(q, more)
	if e.TimeoutParam != "" {
		more.Set(e.TimeoutParam, strconv.FormatInt(max(limit.Milliseconds(), 1), 10))
	}
	k := call{sparql.GenericCall{Query: q.Text}, more, acceptFor(q.Form)}
	req, err := k.GenRequest(c.base)
	if err != nil {
		return nil, err
	}
	for name, value := range e.Headers {
		name = http.CanonicalHeaderKey(name)
		if name == "Host" {
			req.Host = value
		} else if _, ours := req.Header[name]; !ours {
			req.Header.Set(name, value)
		}
	}
	if _, own := req.Header["Cache-Control"]; !own && e.Position != "" { // an answer from a cache may be from before the position
		req.Header.Set("Cache-Control", "no-cache")
	}
	req.Header["User-Agent"], req.Header["Accept-Encoding"] = c.agent, acceptGzip
	return &request{template: req, identity: identity}, nil
}

// identity digests everything that Freshet chooses and that determines the
// answer: an ETag given under other settings must not be used.
func (c *Client) identity(q *registry.Query, more url.Values) string {
	b := make([]byte, 0, 1024)
	for _, part := range [...]string{c.base, q.Text, more.Encode(), acceptFor(q.Form)[0]} {
		b = append(strconv.AppendQuote(b, part), ' ')
	}
	b = strconv.AppendInt(b, int64(c.settings.MaxRows), 10)
	return strconv.FormatUint(xxh3.HashSeed(append(b, c.caller...), c.seed), 16)
}

// callerOf is the part of an identity that is the same for all queries: the
// headers and the credentials.
func callerOf(e *registry.Endpoint) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		fmt.Fprintf(&b, " %q %q", name, e.Headers[name])
	}
	for _, p := range []*registry.Password{e.Auth.Basic, e.Auth.Digest} {
		if p != nil {
			fmt.Fprintf(&b, " user %q", p.Username)
		}
	}
	if t := e.Auth.Bearer; t != nil {
		fmt.Fprintf(&b, " bearer %q %q", t.Token, t.TokenFile)
	}
	return b.String()
}

// with returns a request to send, again if it has been sent before. It is
// conditional if m has validators.
func (r *request) with(ctx context.Context, m Memory, again bool) (*http.Request, error) {
	req := r.template.WithContext(ctx)
	if again { // the transport may still hold the header of the first
		req = r.template.Clone(ctx)
	}
	if r.template.GetBody != nil {
		body, err := r.template.GetBody()
		if err != nil {
			return nil, err
		}
		req.Body = body
	}
	if !r.conditional(m) {
		return req, nil
	}
	if m.ETag != "" {
		req.Header.Set("If-None-Match", m.ETag)
	} else {
		req.Header.Set("If-Modified-Since", m.LastModified)
	}
	return req, nil
}

// conditional reports whether a request with m asks for 304. Conditions on POST
// have another meaning.
func (r *request) conditional(m Memory) bool {
	return r.template.Method == http.MethodGet && (m.ETag != "" || m.LastModified != "")
}

// mostWeak is how many times in a row status 304 counts as unchanged if only a weak ETag was sent. RFC 9110,
// section 8.8.1, lets a weak one stay the same over a change.
const mostWeak = 15

// recall returns the memory without validators that were given for another request, and without any once a weak
// ETag has decided often enough.
func (r *request) recall(m Memory) Memory {
	m.LastModified, _ = unbind(m.LastModified, r.identity)
	if m.ETag, r.weak = unbind(m.ETag, r.identity); r.weak >= mostWeak {
		m.ETag, m.LastModified = "", ""
	}
	return m
}

// confirmed returns the memory with which status 304 was asked for, as it is stored.
func (r *request) confirmed(m Memory) Memory {
	// Keep the validators of the known body: those of the 304 may belong to a
	// newer one, created while the server or a cache compared.
	if m.LastModified != "" {
		m.LastModified = r.identity + " " + m.LastModified
	}
	switch {
	case strings.HasPrefix(m.ETag, "W/"):
		m.ETag = r.identity + "+" + strconv.Itoa(r.weak+1) + " " + m.ETag
	case m.ETag != "":
		m.ETag = r.identity + " " + m.ETag
	}
	return m
}

// unbind returns a stored validator, empty if it was given for another request, and the number of times in a row that it
// was confirmed, if it is weak.
func unbind(s, identity string) (plain string, weak int) {
	of, plain, _ := strings.Cut(s, " ")
	of, times, _ := strings.Cut(of, "+")
	if of != identity {
		return "", 0
	}
	weak, _ = strconv.Atoi(times)
	return plain, weak
}

// longestValidator is how many bytes of a validator are kept for each query, and sent with each request.
const longestValidator = 1 << 10

// newMemory returns the memory of a complete answer.
func newMemory(sum [2]uint64, h http.Header, identity string, vars []string) Memory {
	m := Memory{Body: sum, Vars: vars}
	if tag := h.Get("Etag"); tag != "" && len(tag) <= longestValidator {
		m.ETag = identity + " " + tag
	}
	if at := h.Get("Last-Modified"); at != "" && len(at) <= longestValidator && strongLastModified(at, h.Get("Date")) {
		m.LastModified = identity + " " + at
	}
	return m
}

// strongLastModified reports whether a Last-Modified distinguishes versions.
// Its unit is the second, so that something that changed in the second of the
// answer may change again unnoticed (RFC 9110, section 8.8.2.2).
func strongLastModified(modified, date string) bool {
	m, err1 := http.ParseTime(modified)
	d, err2 := http.ParseTime(date)
	return err1 == nil && err2 == nil && d.Sub(m) >= time.Second
}

// UserAgent returns the header User-Agent of requests to servers of others. contact may be empty.
func UserAgent(version, contact string) string {
	clean := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r <= ' ' || r > '~' || r == '(' || r == ')' {
				return -1
			}
			return r
		}, s)
	}
	if version = clean(version); version == "" {
		version = "dev"
	}
	agent := "Freshet/" + version
	if contact = clean(contact); contact != "" {
		agent += " (+" + contact + ")"
	}
	return agent
}

// CheckURL returns the address of a server without its fragment. It refuses addresses that are not http,
// that hold credentials, and public hosts without a contact.
func CheckURL(raw, contact string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", err
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", fmt.Errorf("%q is not an http or https URL", raw)
	case u.User != nil:
		return "", fmt.Errorf("%s: put credentials into auth, not into the URL", u.Redacted())
	case contact == "" && !registry.PrivateHost(u.Hostname()):
		return "", fmt.Errorf("%w, such as %s: set `contact` in the configuration file, or start the server with `--contact "+
			"mailto:you@example.org`", ErrNoContact, u.Hostname())
	}
	u.Fragment, u.RawFragment = "", ""
	return u.String(), nil
}

// Pings returns settings by which a client notices that an HTTP/2 connection is dead, and opens another one. Without them it
// keeps using one whose packets a firewall drops, until the operating system gives it up after many minutes.
func Pings() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 15 * time.Second}
}

// newHTTPClient shares nothing with http.DefaultClient: credentials and limits
// of one endpoint must not affect another.
func newHTTPClient(connections int) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			HTTP2:                  Pings(),
			MaxIdleConnsPerHost:    connections,
			IdleConnTimeout:        90 * time.Second,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 256 << 10,
			DisableCompression:     true, // bodies are counted and checked after decompression
		},
		CheckRedirect: checkRedirect,
	}
}
