package server

import (
	"net/url"
	"slices"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/atom"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/web"
)

// feed writes the Atom feed of a query, of a watch, or of all queries.
func (s *Server) feed(q *registry.Query, w *watch.Watch, names watch.Namer, params url.Values) (web.Feed, error) {
	source := &atom.Source{Log: s.Store.History, Head: s.Store.History.Head, Tagged: s.tagged, Title: s.title, PublicURL: s.conf.PublicURL, Named: s.named}
	var d atom.Document
	var err error
	if q == nil {
		d, err = source.All(params)
	} else {
		d, err = source.Query(q, w, names, params)
	}
	return web.Feed{Body: d.Body, Type: atom.Type, ETag: d.ETag, Modified: d.Modified, Self: d.Self, Topic: d.Topic}, err
}

// tagged reports whether a query has a tag now.
func (s *Server) tagged(query, tag string) bool {
	q, err := s.Store.Queries.Query(query)
	return err == nil && slices.Contains(q.Tags(), tag)
}

// inWords is the format of changes for webhooks, which people read in chats.
func (s *Server) inWords() notify.Format {
	f := s.Format()
	f.Summary = true
	return f
}

// title returns the first name that a holder gave to a query, else its id.
func (s *Server) title(query string) string {
	q, err := s.Store.Queries.Query(query)
	if err != nil {
		return query
	}
	for _, h := range q.Holders {
		if h.Name != "" {
			return h.Name
		}
	}
	return query
}

// named returns the URL whose host is in the ids of feeds. Readers may continue at another node of a
// cluster, so it is that of the node with the first name.
func (s *Server) named() string {
	if s.member != nil {
		if list := s.member.publicURLs(); len(list) > 0 && list[0] != "" {
			return list[0]
		}
	}
	return s.conf.PublicURL
}
