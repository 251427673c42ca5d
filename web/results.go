package web

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// accepted maps the suffixes to media types: the one that is sent, and the aliases that
// clients may ask for.
var accepted = map[string][]string{
	"srj": {"application/sparql-results+json", "application/json"},
	"srx": {"application/sparql-results+xml", "application/xml", "text/xml"},
	"csv": {"text/csv"},
	"tsv": {"text/tab-separated-values"},
	"nt":  {"application/n-triples", "text/plain"},
	"ttl": {"text/turtle"},
}

// results serves the last complete result. The suffix "" negotiates its format.
func results(suffix string) func(*call) error {
	return func(c *call) error {
		q, err := c.query()
		if err != nil {
			return err
		}
		c.w.Header().Add("Vary", "Accept")
		as, err := c.representation(q.Form, suffix)
		if err != nil {
			return err
		}
		return c.current(func() error { return c.result(q, as) })
	}
}

// result answers with the last complete result.
func (c *call) result(q registry.Query, as string) error {
	st, _, err := c.History.Current(q.ID, false)
	if err != nil {
		return err
	}
	if st.Position.Seq == 0 {
		return c.noResult(q, st)
	}
	tag := resultTag(st, as)
	describe := func() { c.describe(q, as, tag, st) }
	if err := c.expected(tag, st.ChangedAt); err != nil {
		return err
	}
	if c.unchanged(tag, st.ChangedAt) {
		describe()
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return c.lent(http.StatusOK, MediaType(as), "results", q.ID+" "+tag, describe, func(w io.Writer) error {
		now, r, err := c.History.Current(q.ID, true)
		switch {
		case err != nil:
			return err
		case r == nil || now.Position != st.Position:
			return errSuperseded
		}
		return Represent(w, r, as)
	})
}

func (c *call) representation(f diff.Form, suffix string) (string, error) {
	have := Representations(f)
	if suffix == "" {
		offers := make([][]string, len(have))
		for i, x := range have {
			offers[i] = accepted[x]
		}
		if i := negotiate(c.r.Header.Values("Accept"), offers...); i >= 0 {
			return have[i], nil
		}
	} else if slices.Contains(have, suffix) {
		return suffix, nil
	}
	p := &problem{Problem: newProblem("not-acceptable", "the result of "+article(f)+" query is not served like this")}
	for _, x := range have {
		p.available = append(p.available, accepted[x][0])
	}
	return "", p
}

func article(f diff.Form) string {
	if f == diff.Ask {
		return "an ASK"
	}
	return "a " + string(f)
}

func resultTag(st registry.Status, suffix string) string {
	return fmt.Sprintf("%q", fmt.Sprintf("%s.%d.%s", st.Position.Epoch, st.Position.Seq, suffix))
}

// noResult returns the problem of a query without a result; Retry-After is its next
// run. Only callers with a token see the endpoint's error, which may name hosts, graphs
// and users.
func (c *call) noResult(q registry.Query, st registry.Status) error {
	wait := 5.0
	due, err := c.Daemon.Due(q.Endpoint, []string{q.ID})
	if err != nil {
		return err
	}
	if !due[0].IsZero() {
		wait = math.Ceil(due[0].Sub(c.Now()).Seconds())
	}
	detail := "no execution has been complete so far"
	if st.Position.Seq > 0 {
		detail = "the log holds no change of this query any more; its results are there"
	}
	if st.Error != "" && c.signed {
		detail += "; the last one failed: " + st.Error
	}
	return &problem{Problem: newProblem("no-result", detail), retryAfter: int(clip(wait, 1, 3600))}
}

// describe sets the header of a representation of a result, also for status 304.
func (c *call) describe(q registry.Query, suffix, tag string, st registry.Status) {
	c.topic(q, "/results."+suffix, tag, st.ChangedAt)
	c.w.Header().Set("Freshet-Checked-At", st.CheckedAt.UTC().Format(time.RFC3339Nano))
}

// topic sets the header of a WebSub topic: a hub link, and one self link to this very
// representation.
func (c *call) topic(q registry.Query, path, tag string, changed time.Time) {
	c.linkTopic("/v1/queries/"+url.PathEscape(q.ID)+path, tag, changed, q.Public())
}

// linkTopic links a topic to itself and to its hub, and sets its validators.
func (c *call) linkTopic(self, tag string, changed time.Time, public bool) {
	c.linkHub()
	c.linkSelf(self, tag, changed, public)
}

func (c *call) linkHub() { c.w.Header().Add("Link", "<"+c.url("/v1/hub")+`>; rel="hub"`) }

func (c *call) linkSelf(self, tag string, changed time.Time, public bool) {
	h := c.w.Header()
	h.Set("ETag", tag)
	h.Set("Last-Modified", changed.UTC().Format(http.TimeFormat))
	h.Add("Link", "<"+c.url(self)+`>; rel="self"`)
	h.Set("Cache-Control", "private, no-cache")
	if public {
		h.Set("Cache-Control", "no-cache")
	}
}

// A patientWriter gives the client slowestPiece for each piece and no limit in total, so
// that a slow reader gets everything and a blocked one is disconnected.
type patientWriter struct {
	w  io.Writer
	rc *http.ResponseController
}

const (
	pieceSize    = 64 << 10
	slowestPiece = 30 * time.Second
)

func (c *call) patient() io.Writer {
	return &patientWriter{c.w, http.NewResponseController(c.w)}
}

func (p *patientWriter) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		_ = p.rc.SetWriteDeadline(time.Now().Add(slowestPiece))
		n, err := p.w.Write(b[done:min(done+pieceSize, len(b))])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
