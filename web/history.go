package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

// Limits on reading the past.
const (
	pastTime   = 20 * time.Second // for computing one document
	clockError = time.Minute      // by which a client's clock may be ahead

	usualMementos = 1000
	mostMementos  = 10_000
)

const linkFormat = "application/link-format"

// newestState is the moment of the newest state. It is later than the time of any state, as the clock may have been ahead
// when the state was found.
var newestState = registry.Moment{Time: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}

// A pastCall asks for a past state.
type pastCall struct {
	moment registry.Moment
	gate   bool // by Accept-Datetime
	fixed  bool // by the address of one state
}

// past parses ?at=, ?seq= and Accept-Datetime. It returns nil if the request asks for the
// current result.
func (c resultAPI) past() (*pastCall, error) {
	at, seq, when := c.params.Get("at"), c.params.Get("seq"), c.r.Header.Get("Accept-Datetime")
	switch {
	case at != "" && seq != "":
		return nil, malformed("?seq", "give at or seq, not both")
	case at != "":
		t, err := registry.ParseTime(at)
		if err != nil {
			return nil, malformed("?at", "%v", err)
		}
		return &pastCall{moment: registry.Moment{Time: t}}, notInFuture(c.Now(), "at", t)
	case seq != "":
		m, err := registry.ParseMoment(seq)
		if err != nil || !m.Time.IsZero() {
			return nil, malformed("?seq", "seq is the number of a change, or epoch:number")
		}
		return &pastCall{moment: m, fixed: m.Epoch != ""}, nil
	case when != "":
		t, err := http.ParseTime(when)
		if err != nil {
			return nil, malformed("", "Accept-Datetime is a time such as Sun, 01 Nov 2026 12:00:00 GMT")
		}
		return &pastCall{moment: registry.Moment{Time: endOfSecond(t)}, gate: true}, nil
	}
	return nil, nil
}

// endOfSecond returns the last moment of a second. A Memento-Datetime, which has no
// fractions, then leads back to its state.
func endOfSecond(t time.Time) time.Time { return t.Add(time.Second - 1) }

func notInFuture(now time.Time, name string, t time.Time) error {
	if t.After(now.Add(clockError)) {
		return malformed("?"+name, "%s is in the future: it is %s here", name, now.UTC().Format(time.RFC3339))
	}
	return nil
}

// state answers with a past state. path is the address of the current result.
func (c resultAPI) state(q registry.Query, as, path string, p *pastCall) error {
	place, err := c.History.Place(q.ID, p.moment)
	if gap := (*registry.GapError)(nil); p.gate && errors.As(err, &gap) && gap.Reason == registry.TooOld || p.gate && noResult(err) {
		place, err = c.first(q.ID) // as RFC 7089 asks of a TimeGate
	}
	if err != nil {
		return err
	}
	tag := fmt.Sprintf("%q", fmt.Sprintf("%s.%d.%s", place.Epoch, place.Seq, as))
	describe := func() {
		h := c.w.Header()
		h.Set("ETag", tag)
		h.Set("Last-Modified", place.Time.UTC().Format(http.TimeFormat))
		h.Set("Memento-Datetime", place.Time.UTC().Format(http.TimeFormat))
		h.Set("Freshet-Checked-At", place.CheckedAt.UTC().Format(time.RFC3339Nano))
		h.Set("Content-Location", c.url(memento(path, place.Position)))
		h.Set("Cache-Control", pastCaching(q, p.fixed && place.Next.Seq > 0))
		c.linkMementos(path, place)
	}
	return c.current(func() error {
		return c.version(contentType(as), "past", q.ID+" "+tag, tag, place.Time, describe,
			compute(c.r.Context(), func(ctx context.Context, w io.Writer) error {
				r, err := c.History.StateAt(ctx, q.ID, place.Position)
				if err != nil {
					return err
				}
				return Represent(w, r, as, q.Text)
			}))
	})
}

func noResult(err error) bool {
	p := (*registry.Problem)(nil)
	return errors.As(err, &p) && p.Kind == registry.KindNoResult
}

// first finds the oldest state that is kept.
func (c resultAPI) first(query string) (registry.Place, error) {
	list, err := c.History.Versions(query, 0, 1)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("result of %s: %w", query, registry.ErrNotFound)
	}
	if err != nil {
		return registry.Place{}, err
	}
	return c.History.Place(query, registry.Moment{Position: list[0].Position})
}

// compute bounds the time of a document's making, and ends it when the client leaves. If
// others wait for the same document, they make it again.
func compute(ctx context.Context, write func(context.Context, io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		ctx, cancel := context.WithTimeout(ctx, pastTime)
		defer cancel()
		err := write(ctx, w)
		if errors.Is(err, context.Canceled) {
			return errSuperseded
		}
		return err
	}
}

// memento returns the address of one state.
func memento(path string, at registry.Position) string {
	return path + "?seq=" + url.QueryEscape(at.String())
}

// timeMap returns the address of the list of the states of a result.
func timeMap(path string) string {
	at, suffix, _ := strings.Cut(path, "/results")
	if suffix = strings.TrimPrefix(suffix, "."); suffix != "" {
		return at + "/timemap?format=" + suffix
	}
	return at + "/timemap"
}

// linkHistory links the TimeGate and the TimeMap of a result. A result is its own
// TimeGate.
func (c resultAPI) linkHistory(path string) {
	c.w.Header().Add("Link", "<"+c.url(path)+`>; rel="original timegate", <`+c.url(timeMap(path))+`>; rel="timemap"; type="`+linkFormat+`"`)
}

// linkMementos links a state with its neighbours, each once.
func (c resultAPI) linkMementos(path string, p registry.Place) {
	c.linkHistory(path)
	var order []registry.Version
	rels := map[uint64][]string{}
	for _, x := range []struct {
		rel string
		v   registry.Version
	}{{"first", p.First}, {"prev", p.Prev}, {"", p.Version}, {"next", p.Next}, {"last", p.Last}} {
		if x.v.Seq == 0 {
			continue
		}
		if rels[x.v.Seq] == nil {
			order = append(order, x.v)
			rels[x.v.Seq] = []string{}
		}
		if x.rel != "" {
			rels[x.v.Seq] = append(rels[x.v.Seq], x.rel)
		}
	}
	for _, v := range order {
		c.w.Header().Add("Link", c.mementoLink(path, v, append(rels[v.Seq], "memento")...))
	}
}

func (c resultAPI) mementoLink(path string, v registry.Version, rels ...string) string {
	return fmt.Sprintf(`<%s>; rel="%s"; datetime="%s"`, c.url(memento(path, v.Position)), strings.Join(rels, " "),
		v.Time.UTC().Format(http.TimeFormat))
}

// timeMap lists the states of a result that are kept, oldest first.
func (c resultAPI) timeMap(q registry.Query) error {
	limit := c.params.limit(usualMementos, mostMementos)
	after, _ := c.params.position()
	base := "/v1/queries/" + url.PathEscape(q.ID)
	path := base + "/results"
	if format := c.params.Get("format"); slices.Contains(Representations(q.Form), format) {
		path += "." + format
	} else if format != "" {
		c.params.bad("format", "format is one of %s", strings.Join(Representations(q.Form), ", "))
	}
	if c.params.err != nil {
		return c.params.err
	}
	last, err := c.History.Place(q.ID, newestState)
	if err != nil {
		return err
	}
	if after.Epoch != "" && after.Epoch != last.Epoch {
		return &registry.GapError{Reason: registry.OtherEpoch}
	}
	list, err := c.History.Versions(q.ID, after.Seq, limit)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<%s>; rel="original timegate"`, c.url(path))
	if len(list) > 0 {
		first, end := list[0], list[len(list)-1]
		fmt.Fprintf(&b, ",\n<%s>; rel=\"self\"; type=%q; from=%q; until=%q", c.url(c.r.URL.RequestURI()), linkFormat,
			first.Time.UTC().Format(http.TimeFormat), end.Time.UTC().Format(http.TimeFormat))
		if end.Seq < last.Last.Seq {
			more := url.Values{"after": {end.Position.String()}, "limit": {fmt.Sprint(limit)}}
			if format := c.params.Get("format"); format != "" {
				more.Set("format", format)
			}
			fmt.Fprintf(&b, ",\n<%s>; rel=\"timemap\"; type=%q; from=%q", c.url(base+"/timemap?"+more.Encode()), linkFormat,
				end.Time.UTC().Format(http.TimeFormat))
		}
	}
	for _, v := range list {
		rels := []string{"memento"}
		if v.Seq == last.First.Seq {
			rels = slices.Insert(rels, 0, "first")
		}
		if v.Seq == last.Last.Seq {
			rels = slices.Insert(rels, 0, "last")
		}
		b.WriteString(",\n" + c.mementoLink(path, v, rels...))
	}
	return c.bytes(http.StatusOK, linkFormat, []byte(b.String()+"\n"))
}

func versionOf(v registry.Version) api.Version {
	return api.Version{Epoch: v.Epoch, Seq: v.Seq, Time: v.Time.UTC(), CheckedAt: v.CheckedAt.UTC()}
}

// diff answers with the net change between two states.
func (c changeAPI) diff(q registry.Query) error {
	from, err := c.moment(q.ID, "from")
	if err != nil {
		return err
	}
	to, err := c.moment(q.ID, "to")
	if err != nil {
		return err
	}
	if from.Seq > to.Seq {
		return malformed("?from", "from is the state after change %d, and to the one after change %d: exchange them", from.Seq, to.Seq)
	}
	tag := fmt.Sprintf("%q", fmt.Sprintf("%s.%d-%d.diff", to.Epoch, from.Seq, to.Seq))
	describe := func() {
		c.w.Header().Set("ETag", tag)
		c.w.Header().Set("Cache-Control", pastCaching(q, false))
	}
	return c.current(func() error {
		return c.version(typeJSON, "past", q.ID+" "+tag, tag, to.Time, describe,
			compute(c.r.Context(), func(ctx context.Context, w io.Writer) error {
				return c.writeDiff(ctx, w, q.ID, from.Version, to.Version)
			}))
	})
}

// moment finds the state that a parameter names; the newest one if to is absent.
func (c changeAPI) moment(query, name string) (registry.Place, error) {
	m := newestState
	s := c.params.Get(name)
	if s == "" && name == "from" {
		return registry.Place{}, malformed("?from", "from is missing: a change's number, a position (epoch:number), or a time")
	}
	if s != "" {
		var err error
		if m, err = registry.ParseMoment(s); err != nil {
			return registry.Place{}, malformed("?"+name, "%v", err)
		}
		if err := notInFuture(c.Now(), name, m.Time); err != nil {
			return registry.Place{}, err
		}
	}
	return c.History.Place(query, m)
}

func (c changeAPI) writeDiff(ctx context.Context, w io.Writer, query string, from, to registry.Version) error {
	before, err := c.History.StateAt(ctx, query, from.Position)
	if err != nil {
		return err
	}
	after := before
	if to.Seq != from.Seq {
		if after, err = c.History.StateAt(ctx, query, to.Position); err != nil {
			return err
		}
	}
	d, err := diff.CompareUntil(ctx.Err, before, after)
	if err != nil {
		return err
	}
	d = cmp.Or(d, &diff.Delta{Form: after.Form(), Ordered: after.Ordered(), Vars: after.Vars(), OldVars: before.Vars(),
		Boolean: after.Boolean(), Previous: before.Boolean()})
	n := api.Difference{Query: query, From: versionOf(from), To: versionOf(to), Form: d.Form, Jaccard: d.Jaccard, Hash: after.Hash(),
		Before: before.Hash(),
		Added:  d.AddedJSON(), Removed: d.RemovedJSON()}
	if d.Form == diff.Ask {
		n.Boolean, n.Was = &d.Boolean, &d.Previous
	}
	if d.Ordered {
		added, removed := append([]int{}, d.AddedAt...), append([]int{}, d.RemovedAt...)
		n.AddedAt, n.GoneAt = &added, &removed
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(n)
}
