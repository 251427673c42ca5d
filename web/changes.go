package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/freshet/freshet/registry"
)

// A changePage is a part of a log. Next is the value of ?after= for the following
// part. It is set even if there is nothing yet, so that a client can poll with it.
type changePage struct {
	Changes []json.RawMessage `json:"changes"`
	Next    string            `json:"next"`

	size int // bytes of Changes
}

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

func (c changeAPI) list(q registry.Query) error {
	stream, err := c.wantsStream()
	if err != nil {
		return err
	}
	if stream {
		return c.follow(q.ID, func() { c.Followers.Changes(c.w, c.r, c.name(), q) })
	}
	limit, after, given, err := c.pageAfter()
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
	return c.lent(typeJSON, "changes", key, nil, func(w io.Writer) error {
		return c.changesUntil(w, q.ID, after, st.Position, limit)
	})
}

// changesUntil writes a page of a query's changes up to a position: the same bytes
// for as long as the log holds them.
func (c changeAPI) changesUntil(w io.Writer, query string, after, until registry.Position, limit int) error {
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

// pageAfter parses the parameters of a page of changes. It rejects filters that only
// streams support: ignoring them would return too many changes.
func (c changeAPI) pageAfter() (limit int, after registry.Position, given bool, err error) {
	for _, name := range []string{"min_jaccard", "min_rows", "vars", "where", "rate"} {
		if c.params.Has(name) {
			c.params.bad(name, "%s needs the event stream (Accept: text/event-stream)", name)
		}
	}
	limit = c.params.limit(usualPage, mostPage)
	after, given = c.params.position()
	return limit, after, given, c.params.err
}

// oldest returns the position before the oldest stored change. It does not look for it by pages,
// which may be shared copies from before the log was trimmed.
func (c changeAPI) oldest(query string) (registry.Position, error) {
	st, _, err := c.History.Current(query, false)
	if err != nil || st.Position.Seq == 0 {
		return registry.Position{Epoch: st.Position.Epoch}, err
	}
	list, err := c.History.Versions(query, 0, 1)
	if err != nil || len(list) == 0 {
		return st.Position, err
	}
	p := list[0].Position
	p.Seq--
	var gap *registry.GapError
	if _, err = c.History.After(query, p, 1); errors.As(err, &gap) && gap.Reason == registry.TooOld {
		return list[0].Position, nil // a result without a change, as after a restored backup
	}
	return p, err
}

// add appends a change to a page.
func (c changeAPI) add(page *changePage, ch registry.Change) error {
	b, err := c.ChangeJSON(ch)
	if err != nil {
		return fmt.Errorf("write change %s of %s: %w", ch.Position(), ch.Query, err)
	}
	page.Changes = append(page.Changes, b)
	page.size += len(b)
	return nil
}

// latest serves the newest change as a document of its own, a topic.
func (c changeAPI) latest(q registry.Query) error {
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
		err = c.version(typeJSON, "latest", q.ID+" "+tag, tag, st.ChangedAt, describe, func(w io.Writer) error {
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

// mostScanned is the maximum number of changes that one call examines for those that
// match its filter.
const mostScanned = 10_000

func (c changeAPI) all() error {
	keep := c.keeper()
	stream, err := c.wantsStream()
	if err != nil {
		return err
	}
	if stream {
		return c.follow("", func() { c.Followers.All(c.w, c.r, c.name(), keep) })
	}
	limit, after, _, err := c.pageAfter() // zero: from the oldest stored change
	if err != nil {
		return err
	}
	head, err := c.History.Head()
	if err != nil {
		return err
	}
	key := fmt.Sprintf("after %s until %s at most %d, edition %d, %s", after, head, limit, c.Registry.Revision(), c.r.URL.RawQuery)
	return c.lent(typeJSON, "all", key, nil, func(w io.Writer) error {
		page, err := c.scan(after, head, limit, keep)
		if err != nil {
			return err
		}
		return page.write(w)
	})
}

// scan collects up to limit changes that keep accepts, and returns the position it
// reached.
func (c changeAPI) scan(after, head registry.Offset, limit int, keep func(*registry.Change) bool) (changePage, error) {
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
func (c changeAPI) keeper() func(*registry.Change) bool {
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
