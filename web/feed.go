package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web/ldes"
)

// queryFeed serves a query's changes as Atom. The feed is a WebSub topic.
func (c changeAPI) queryFeed(q registry.Query) error {
	st, _, err := c.History.Current(q.ID, false)
	if err != nil {
		return err
	}
	key := fmt.Sprintf("%s at %s, edition %d, %s", q.ID, st.Position, c.Registry.Revision(), c.r.URL.RawQuery)
	return c.feed(key, func() (Feed, error) { return c.Feed(&q, nil, nil, c.params.Values) }, q.Public())
}

// feed serves the changes of a watch as Atom. Only the newest ones have labels that are not known yet.
func (c watchAPI) feed(w watched) error {
	st, _, err := c.History.Current(w.query.ID, false)
	if err != nil {
		return err
	}
	log, err := c.History.After(w.query.ID, registry.Position{Epoch: st.Position.Epoch, Seq: st.Position.Seq - min(st.Position.Seq,
		usualPage)}, usualPage)
	if _, told := ProblemOf(err); err != nil && !told {
		return err
	}
	f, err := c.Feed(&w.query, &w.watch, c.names(w.query.Endpoint, w.watch, Deltas(log)...), c.params.Values)
	if err != nil {
		return err
	}
	c.linkSelf(f.Self, f.ETag, f.Modified, w.query.Public())
	if c.unchanged(f.ETag, f.Modified) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return c.bytes(http.StatusOK, f.Type, f.Body)
}

// allFeed serves the changes of all queries as Atom, or those of a tag or an endpoint.
func (c changeAPI) allFeed() error {
	head, err := c.History.Head()
	if err != nil {
		return err
	}
	key := fmt.Sprintf("all at %s, edition %d, %s", head, c.Registry.Revision(), c.r.URL.RawQuery)
	return c.feed(key, func() (Feed, error) { return c.Feed(nil, nil, nil, c.params.Values) }, false)
}

func (c changeAPI) feed(key string, read func() (Feed, error), public bool) error {
	doc, about, err := c.Documents.Open("feeds", key, func(w io.Writer) (any, error) {
		f, err := read()
		if err != nil {
			return nil, err
		}
		_, err = w.Write(f.Body)
		f.Body = nil
		return f, err
	})
	if err != nil {
		return err
	}
	defer doc.Close()
	f, _ := about.(Feed)
	if err := c.expected(f.ETag, f.Modified); err != nil {
		return err
	}
	if f.Topic {
		c.linkHub()
	}
	c.linkSelf(f.Self, f.ETag, f.Modified, public)
	if c.unchanged(f.ETag, f.Modified) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return sendDocument(c.w, c.r, f.Type, doc)
}

// ldes serves a query's changes as a Linked Data Event Stream: its root, a page of changes, or a state.
func (c changeAPI) ldes(q registry.Query) error {
	st, _, err := c.History.Current(q.ID, false)
	if err != nil {
		return err
	}
	if st.Position.Seq == 0 {
		return c.noResult(q, st)
	}
	s, err := c.stream(q)
	if err != nil {
		return err
	}
	name := "page"
	if c.params.Has("state") {
		name = "state"
	}
	text := c.params.Get(name)
	if text == "" {
		return c.ldesRoot(q, s, st)
	}
	at, err := registry.ParsePosition(text)
	if err != nil {
		return malformed("?"+name, "%v; take the addresses of pages from the stream's root", err)
	}
	if at.Epoch != st.Position.Epoch {
		return &registry.GapError{Reason: registry.OtherEpoch}
	}
	return c.ldesPage(q, s, ldes.Page{After: at, State: name == "state"}, st.Position)
}

// stream reads ?key= and describes the stream.
func (c changeAPI) stream(q registry.Query) (*ldes.Stream, error) {
	s := &ldes.Stream{Address: c.url("/v1/queries/" + q.ID + "/ldes"), Genid: c.url("/.well-known/genid/" + q.ID + "/"), Form: q.Form}
	e, err := c.Registry.Endpoint(q.Endpoint)
	if err != nil {
		return nil, err
	}
	s.Every = scheduler.Gap(e)
	if !c.params.Has("key") {
		return s, nil
	}
	if q.Form != diff.Select {
		return nil, malformed("?key", "only the rows of a SELECT have a key: leave it out")
	}
	_, r, err := c.History.Current(q.ID, true)
	if err != nil || r == nil {
		return nil, err
	}
	s.Key = strings.Split(c.params.Get("key"), ",")
	for _, k := range s.Key {
		if !slices.Contains(r.Vars(), k) {
			return nil, malformed("?key", "the result has no column %q; its columns are %s", k, strings.Join(r.Vars(), ", "))
		}
	}
	return s, nil
}

// ldesRoot lists the pages that are kept. If the first changes are not, a state comes before them.
func (c changeAPI) ldesRoot(q registry.Query, s *ldes.Stream, st registry.Status) error {
	first, err := c.oldest(q.ID)
	if err != nil {
		return err
	}
	tag := fmt.Sprintf("%q", fmt.Sprintf("%s.%d.%d.%d.root.ldes", first.Epoch, first.Seq, st.Position.Seq, s.Every))
	describe := func() {
		c.topic(q, "/ldes", tag, st.ChangedAt)
		c.w.Header().Set("Cache-Control", pastCaching(q, false))
	}
	return c.version(ldes.Type, "ldes", q.ID+" "+strings.Join(s.Key, ",")+tag, tag, st.ChangedAt, describe, func(w io.Writer) error {
		var pages []ldes.Bound
		start := first.Seq
		if next := pageEnd(first.Seq - 1); first.Seq > 0 {
			if next <= st.Position.Seq {
				start = next
			}
			at := registry.Position{Epoch: first.Epoch, Seq: start}
			place, err := c.History.Place(q.ID, registry.Moment{Position: at})
			if err != nil {
				return err
			}
			pages = append(pages, ldes.Bound{Page: ldes.Page{After: at, State: true}, From: place.Time})
		}
		for seq := start; seq < st.Position.Seq; seq = pageEnd(seq) {
			list, err := c.History.Versions(q.ID, seq, 1)
			if err != nil || len(list) == 0 {
				return err
			}
			pages = append(pages, ldes.Bound{Page: ldes.Page{After: registry.Position{Epoch: first.Epoch, Seq: seq}}, From: list[0].Time})
		}
		return s.WriteRoot(w, pages)
	})
}

// pageEnd returns the last change of the page that begins after a change.
func pageEnd(after uint64) uint64 { return (after/ldes.PageChanges + 1) * ldes.PageChanges }

// ldesPage serves a page, which never changes once it is full.
func (c changeAPI) ldesPage(q registry.Query, s *ldes.Stream, p ldes.Page, head registry.Position) error {
	if p.After.Seq > head.Seq {
		return &registry.GapError{Reason: registry.Ahead}
	}
	place := registry.Place{}
	var err error
	if p.After.Seq > 0 {
		if place, err = c.History.Place(q.ID, registry.Moment{Position: p.After}); err != nil {
			return err
		}
	}
	end, changed := min(pageEnd(p.After.Seq), head.Seq), place.Time
	if p.State {
		end = p.After.Seq
	}
	if end > p.After.Seq {
		last, err := c.History.Place(q.ID, registry.Moment{Position: registry.Position{Epoch: p.After.Epoch, Seq: end}})
		if err != nil {
			return err
		}
		changed = last.Time
	}
	full := p.State || end == pageEnd(p.After.Seq)
	tag := fmt.Sprintf("%q", fmt.Sprintf("%s.%d.%d.%t.ldes", p.After.Epoch, p.After.Seq, end, p.State))
	if !full { // it says how often to look for more
		tag = fmt.Sprintf("%q", fmt.Sprintf("%s.%d.%d.%d.ldes", p.After.Epoch, p.After.Seq, end, s.Every))
	}
	describe := func() {
		h := c.w.Header()
		h.Set("ETag", tag)
		h.Set("Cache-Control", pastCaching(q, full))
	}
	if _, err := c.History.After(q.ID, p.After, 1); err != nil && !p.State {
		return err // it is not kept, also if the document still is
	}
	return c.version(ldes.Type, "ldes", q.ID+" "+strings.Join(s.Key, ",")+tag, tag, changed, describe,
		compute(c.r.Context(), func(ctx context.Context, w io.Writer) error {
			var before *diff.Result
			var at time.Time
			if p.After.Seq > 0 {
				var err error
				if before, err = c.History.StateAt(ctx, q.ID, p.After); err != nil {
					return err
				}
				at = place.Time
			}
			var changes []registry.Change
			for pos := p.After; pos.Seq < end; {
				more, err := c.History.After(q.ID, pos, int(end-pos.Seq))
				if err != nil {
					return err
				}
				if len(more) == 0 {
					return errSuperseded
				}
				changes = append(changes, more...)
				pos = more[len(more)-1].Position()
			}
			return s.WritePage(w, p, before, at, changes, full)
		}))
}

// patch serves a page of a graph's changes as an RDF patch.
func (c changeAPI) patch(q registry.Query) error {
	if !q.Form.Graph() {
		return &registry.Problem{Kind: "not-acceptable", Detail: "the changes of " + article(q.Form) +
			" query are no triples: take changes, or ldes", Available: []string{typeJSON, ldes.Type}}
	}
	limit := c.params.limit(usualPage, mostPage)
	after, given := c.params.position()
	if c.params.err != nil {
		return c.params.err
	}
	var err error
	if !given {
		if after, err = c.oldest(q.ID); err != nil {
			return err
		}
	}
	changes, err := c.History.After(q.ID, after, limit)
	if err != nil {
		return err
	}
	key := fmt.Sprintf("%s after %s, %d", q.ID, after, len(changes))
	return c.lent(ldes.PatchType, "patch", key, nil, compute(c.r.Context(), func(ctx context.Context, w io.Writer) error {
		state := func(p registry.Position) (*diff.Result, error) { return c.History.StateAt(ctx, q.ID, p) }
		return ldes.WritePatch(w, c.url("/v1/queries/"+q.ID+"/changes/"), after, state, changes)
	}))
}
