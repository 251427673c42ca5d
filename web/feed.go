package web

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// A Feed is an Atom document.
type Feed struct {
	Body     []byte
	Type     string
	ETag     string
	Modified time.Time
	Self     string // path and query of its own URL
	Topic    bool   // the hub accepts subscriptions to it
}

// queryFeed serves a query's changes as Atom. The feed is a WebSub topic.
func queryFeed(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	st, _, err := c.History.Current(q.ID, false)
	if err != nil {
		return err
	}
	key := fmt.Sprintf("%s at %s, %s", q.ID, st.Position, c.r.URL.RawQuery)
	return c.feed(key, func() (Feed, error) { return c.Feeds.QueryFeed(&q, c.params) }, q.Public())
}

// allFeed serves the changes of all queries as Atom, or those of a tag or an endpoint.
func allFeed(c *call) error {
	head, err := c.History.Head()
	if err != nil {
		return err
	}
	key := fmt.Sprintf("all at %s, edition %d, %s", head, c.Registry.Revision(), c.r.URL.RawQuery)
	return c.feed(key, func() (Feed, error) { return c.Feeds.AllFeed(c.params) }, false)
}

func (c *call) feed(key string, read func() (Feed, error), public bool) error {
	doc, err := c.Documents.Open("feeds", key, func(w io.Writer) (any, error) {
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
	f, _ := doc.About().(Feed)
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
