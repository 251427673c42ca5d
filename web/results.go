package web

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/accept"
)

// serveResults serves the last complete result. The suffix "" negotiates its format.
func serveResults(suffix string) func(*call) error {
	return of((*call).query, func(c resultAPI, q registry.Query) error {
		c.w.Header().Add("Vary", "Accept, Accept-Datetime")
		as, err := c.representation(q.Form, suffix)
		if err != nil {
			return err
		}
		path := "/v1/queries/" + url.PathEscape(q.ID) + "/results"
		if suffix != "" {
			path += "." + suffix
		}
		p, err := c.past()
		if err != nil {
			return err
		}
		if p != nil {
			return c.state(q, as, path, p)
		}
		return c.current(func() error { return c.result(q, as, path) })
	})
}

// result answers with the last complete result. path is its address, which selects the
// format or negotiates it.
func (c resultAPI) result(q registry.Query, as, path string) error {
	st, _, err := c.History.Current(q.ID, false)
	if err != nil {
		return err
	}
	if st.Position.Seq == 0 {
		return c.noResult(q, st)
	}
	tag := fmt.Sprintf("%q", fmt.Sprintf("%s.%d.%s", st.Position.Epoch, st.Position.Seq, as))
	proof, _, err := queryAPI(c).viewer().proof(&q, st)
	if err != nil {
		return err
	}
	describe := func() {
		c.topic(q, "/results."+as, tag, st.ChangedAt)
		c.w.Header().Set("Freshet-Checked-At", st.CheckedAt.UTC().Format(time.RFC3339Nano))
		c.linkHistory(path)
		if proof != nil {
			c.w.Header().Set("Freshet-Proved-Until", proof.Until.UTC().Format(time.RFC3339Nano))
		}
	}
	return c.version(contentType(as), "results", q.ID+" "+tag, tag, st.ChangedAt, describe, func(w io.Writer) error {
		now, r, err := c.History.Current(q.ID, true)
		switch {
		case err != nil:
			return err
		case r == nil || now.Position != st.Position:
			return errSuperseded
		}
		return Represent(w, r, as, q.Text)
	})
}

func (c resultAPI) representation(f diff.Form, suffix string) (string, error) {
	have := Representations(f)
	if suffix == "" {
		offers := make([][]string, len(have))
		for i, x := range have {
			offers[i] = mediaTypes[x]
		}
		if i := accept.Choose(c.r.Header.Values("Accept"), offers...); i >= 0 {
			return have[i], nil
		}
	} else if slices.Contains(have, suffix) {
		return suffix, nil
	}
	p := newProblem("not-acceptable", "the result of "+article(f)+" query is not served like this")
	for _, x := range have {
		p.Available = append(p.Available, mediaTypes[x][0])
	}
	return "", p
}

func article(f diff.Form) string {
	if f == diff.Ask {
		return "an ASK"
	}
	return "a " + string(f)
}

// noResult returns the problem of a query without a result; Retry-After is its next
// run, or soon for one that may just run for the first time. Only callers with a token see
// the endpoint's error, which may name hosts, graphs and users.
func (c *call) noResult(q registry.Query, st registry.Status) error {
	wait := 5 * time.Second
	due, err := c.Daemon.Due(q.Endpoint, []string{q.ID})
	if err != nil {
		return err
	}
	if !due[0].IsZero() && (st.Error != "" || st.Position.Seq > 0) {
		wait = due[0].Sub(c.Now()) + time.Second - 1 // rounded up
	}
	detail := "no execution has been complete so far"
	if st.Position.Seq > 0 {
		detail = "the log holds no change of this query any more; its results are there"
	}
	if st.Error != "" && c.signed {
		detail += "; the last one failed: " + st.Error
	}
	return later("no-result", min(max(wait, time.Second), time.Hour), detail)
}
