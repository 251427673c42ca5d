package web

import (
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
	Topic    bool   // the hub delivers it
}

// queryFeed serves a query's changes as Atom, a topic.
func queryFeed(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	f, err := c.QueryFeed(&q, c.params)
	if err != nil {
		return err
	}
	return c.feed(f, q.Public())
}

// allFeed serves all changes as Atom, or those of a tag or an endpoint.
func allFeed(c *call) error {
	f, err := c.AllFeed(c.params)
	if err != nil {
		return err
	}
	return c.feed(f, false)
}

func (c *call) feed(f Feed, public bool) error {
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
	return c.bytes(http.StatusOK, f.Type, f.Body)
}
