package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/freshet/freshet/registry"
)

const typeSSE = "text/event-stream"

// A changePage is a part of a log. Next is the value of ?after= for the following
// part. It is set even if there is nothing yet, so that a client can poll with it.
type changePage struct {
	Changes []json.RawMessage `json:"changes"`
	Next    string            `json:"next"`

	size int // bytes of Changes
}

// write writes the page.
func (p *changePage) write(w io.Writer) error {
	next, err := json.Marshal(p.Next)
	if err != nil {
		return err
	}
	b := []byte(`{"changes":[`)
	for i, c := range p.Changes {
		if i > 0 {
			b = []byte(",")
		}
		w.Write(b) // as all of this, into memory
		w.Write(c)
		p.Changes[i], b = nil, nil
	}
	w.Write(b)
	_, err = w.Write(append(append([]byte(`],"next":`), next...), "}\n"...))
	return err
}

// pageBytes is the approximate maximum size of a page, which limits the memory of one
// request.
const pageBytes = 8 << 20

// wantsStream chooses between JSON and server-sent events.
func (c *call) wantsStream(possible bool) (bool, error) {
	c.w.Header().Add("Vary", "Accept")
	offers := [][]string{{typeJSON}, {typeSSE}}
	if !possible {
		offers = offers[:1]
	}
	i := negotiate(c.r.Header.Values("Accept"), offers...)
	if i < 0 {
		return false, &problem{Problem: newProblem("not-acceptable", "changes come as JSON or as server-sent events"), available: slices.Concat(offers...)}
	}
	return i == 1, nil
}

func queryChanges(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	stream, err := c.wantsStream(c.Followers != nil)
	if err != nil {
		return err
	}
	if stream {
		return c.follow(q.ID, func() { c.Followers.Changes(c.w, c.r, c.name(), q) })
	}
	if err := c.unfiltered(); err != nil {
		return err
	}
	limit, err := c.limit(usualPage, mostPage)
	if err != nil {
		return err
	}
	after, given, err := c.position()
	if err != nil {
		return err
	}
	if !given {
		if after, err = c.oldest(q.ID); err != nil {
			return err
		}
	}
	st, _, err := c.History.Current(q.ID, false)
	if err != nil {
		return err
	}
	key := fmt.Sprintf("%s after %s until %s at most %d", q.ID, after, st.Position, limit)
	return c.lent(http.StatusOK, typeJSON, "changes", key, nil, func(w io.Writer) error {
		return c.changesUntil(w, q.ID, after, st.Position, limit)
	})
}

// changesUntil writes a page of a query's changes up to a position: the same bytes
// for as long as the log holds them.
func (c *call) changesUntil(w io.Writer, query string, after, until registry.Position, limit int) error {
	changes, err := c.History.After(query, after, limit)
	if err != nil {
		return err
	}
	page := changePage{Changes: []json.RawMessage{}, Next: after.String()}
	for _, ch := range changes {
		if ch.Epoch == until.Epoch && ch.Seq > until.Seq {
			break
		}
		if err := c.add(&page, ch); err != nil {
			return err
		}
		page.Next = ch.Position().String()
	}
	return page.write(w)
}

// unfiltered rejects filters that only streams support. Ignoring them would return too
// many changes.
func (c *call) unfiltered() error {
	for _, name := range []string{"min_jaccard", "min_rows", "vars", "where", "rate"} {
		if c.params.Has(name) {
			return malformed("?"+name, "%s needs the event stream (Accept: text/event-stream)", name)
		}
	}
	return nil
}

// oldest returns the position before the oldest stored change, found by binary search:
// the log's numbers have no gaps.
func (c *call) oldest(query string) (registry.Position, error) {
	st, _, err := c.History.Current(query, false)
	if err != nil {
		return registry.Position{}, err
	}
	p := registry.Position{Epoch: st.Position.Epoch}
	if reaches, err := c.reaches(query, p); reaches || err != nil {
		return p, err
	}
	low, high := uint64(0), st.Position.Seq // low has been trimmed, high has not
	for high-low > 1 {
		p.Seq = low + (high-low)/2
		reaches, err := c.reaches(query, p)
		if err != nil {
			return p, err
		}
		if reaches {
			high = p.Seq
		} else {
			low = p.Seq
		}
	}
	p.Seq = high
	return p, nil
}

func (c *call) reaches(query string, p registry.Position) (bool, error) {
	_, err := c.History.After(query, p, 1)
	var gap *registry.GapError
	if errors.As(err, &gap) && gap.Reason == registry.TooOld {
		return false, nil
	}
	return err == nil, err
}

// add appends a change to a page.
func (c *call) add(page *changePage, ch registry.Change) error {
	b, err := c.ChangeJSON(ch)
	if err != nil {
		return fmt.Errorf("write change %s of %s: %w", ch.Position(), ch.Query, err)
	}
	page.Changes = append(page.Changes, b)
	page.size += len(b)
	return nil
}

// latestChange serves the newest change as a document of its own, a topic.
func latestChange(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	return c.current(func() error {
		st, _, err := c.History.Current(q.ID, false)
		if err != nil {
			return err
		}
		if st.Position.Seq == 0 {
			return c.noResult(q, st)
		}
		tag := fmt.Sprintf("%q", fmt.Sprintf("%s.%d.change", st.Position.Epoch, st.Position.Seq))
		describe := func() { c.topic(q, "/changes/latest", tag, st.ChangedAt) }
		if err := c.expected(tag, st.ChangedAt); err != nil {
			return err
		}
		if c.unchanged(tag, st.ChangedAt) {
			describe()
			c.w.WriteHeader(http.StatusNotModified)
			return nil
		}
		err = c.lent(http.StatusOK, typeJSON, "latest", q.ID+" "+tag, describe, func(w io.Writer) error {
			ch, err := c.History.Latest(q.ID)
			if err != nil {
				return err
			}
			if ch.Position() != st.Position {
				return errSuperseded
			}
			b, err := c.ChangeJSON(ch)
			if err == nil {
				_, err = w.Write(b)
			}
			return err
		})
		if missing(err) {
			return c.noResult(q, st)
		}
		return err
	})
}

// errSuperseded reports that the version being sent is no longer the current one.
var errSuperseded = errors.New("another version came meanwhile")

// current answers with the current version of a resource. If a newer version appears
// before the response has started, it starts again with that one.
func (c *call) current(answer func() error) error {
	const most = 5
	for try := 1; ; try++ {
		if err := answer(); !errors.Is(err, errSuperseded) || try == most {
			return err
		}
	}
}

// mostScanned is the maximum number of changes that one call examines for those that
// match its filter.
const mostScanned = 10_000

func allChanges(c *call) error {
	keep := c.keeper()
	stream, err := c.wantsStream(c.Followers != nil)
	if err != nil {
		return err
	}
	if stream {
		return c.follow("", func() { c.Followers.All(c.w, c.r, c.name(), keep) })
	}
	if err := c.unfiltered(); err != nil {
		return err
	}
	limit, err := c.limit(usualPage, mostPage)
	if err != nil {
		return err
	}
	after, _, err := c.position() // zero: from the oldest stored change
	if err != nil {
		return err
	}
	head, err := c.History.Head()
	if err != nil {
		return err
	}
	key := fmt.Sprintf("after %s until %s at most %d, edition %d, %s", after, head, limit, c.Registry.Revision(), c.r.URL.RawQuery)
	return c.lent(http.StatusOK, typeJSON, "all", key, nil, func(w io.Writer) error {
		page, err := c.scan(after, head, limit, keep)
		if err != nil {
			return err
		}
		return page.write(w)
	})
}

// scan collects up to limit changes that keep accepts, and returns the position it
// reached.
func (c *call) scan(after, head registry.Offset, limit int, keep func(*registry.Change) bool) (changePage, error) {
	page := changePage{Changes: []json.RawMessage{}}
	for scanned := 0; scanned < mostScanned; {
		changes, err := c.History.All(after, limit)
		if err != nil {
			return page, err
		}
		for i, ch := range changes {
			if ch.Offset > head.Seq { // committed later; another call returns it
				changes = nil
				break
			}
			after = registry.Offset{Epoch: head.Epoch, Seq: ch.Offset}
			if !keep(&changes[i]) {
				continue
			}
			if err := c.add(&page, ch); err != nil {
				return page, err
			}
			if len(page.Changes) == limit || page.size >= pageBytes {
				page.Next = after.String()
				return page, nil
			}
		}
		if scanned += len(changes); len(changes) == 0 {
			break
		}
	}
	if after == (registry.Offset{}) { // the log is empty: continue from its end
		after = head
	}
	page.Next = after.String()
	return page, nil
}

// keeper returns the filter for ?tag= and ?endpoint=.
func (c *call) keeper() func(*registry.Change) bool {
	endpoint, tag := c.params.Get("endpoint"), c.params.Get("tag")
	return func(ch *registry.Change) bool {
		if endpoint != "" && ch.Endpoint != endpoint {
			return false
		}
		if tag == "" {
			return true
		}
		it, err := c.Queries.Item(ch.Query)
		return err == nil && slices.Contains(it.Query.Tags(), tag)
	}
}
