package web

import (
	"fmt"
	"io"
	"net/http"

	"github.com/freshet/freshet/registry"
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
	log, err := c.History.After(w.query.ID, registry.Position{Epoch: st.Position.Epoch, Seq: st.Position.Seq - min(st.Position.Seq, usualPage)}, usualPage)
	if _, told := ProblemOf(err); err != nil && !told {
		return err
	}
	f, err := c.Feed(&w.query, &w.watch, c.names(w.query.Endpoint, w.watch, Deltas(log)...), c.params.Values)
	if err != nil {
		return err
	}
	c.linkSelf(f.Self, f.ETag, f.Modified, false)
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
	return c.send(http.StatusOK, f.Type, doc)
}
