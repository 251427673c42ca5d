package web

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/freshet/freshet/registry"
)

// ErrNoTopic reports that a path is not a topic or has no content now.
var ErrNoTopic = fmt.Errorf("no topic: %w", registry.ErrNotFound)

// Topics renders topics in memory. The same code answers GET, so the bytes are the
// same. A topic is a path that a rel=self link names.
type Topics struct {
	s      *server
	routes map[string]route // by the part of the path after the id
}

// NewTopics returns the topics of the API that New builds from the same Config.
func NewTopics(c Config) (*Topics, error) {
	s, err := newServer(c)
	if err != nil {
		return nil, err
	}
	t := &Topics{s: s, routes: map[string]route{}}
	for _, r := range s.routes {
		if rest, ok := strings.CutPrefix(r.path, "/v1/queries/{id}"); ok && r.topic && !slices.Contains(noTopics, rest) {
			t.routes[rest] = r
		}
	}
	return t, nil
}

// noTopics can be read like topics, but not followed.
var noTopics = []string{"/results", "/changes", "/changes.rdfp", "/changes/diff", "/timemap"}

func (t *Topics) find(path string, stranger bool) (registry.Query, string, error) {
	rest, ok := strings.CutPrefix(path, "/v1/queries/")
	id, topic, found := strings.Cut(rest, "/")
	if topic = "/" + topic; !ok || !found || t.routes[topic].run == nil {
		return registry.Query{}, "", ErrNoTopic
	}
	get := t.s.Registry.Query
	if stranger {
		get = t.s.Registry.PublicQuery
	}
	q, err := get(id)
	if err != nil {
		return registry.Query{}, "", err
	}
	if suffix, ok := strings.CutPrefix(topic, "/results."); ok && !slices.Contains(Representations(q.Form), suffix) {
		return registry.Query{}, "", ErrNoTopic
	}
	return q, topic, nil
}

// Find returns the query of a topic, for a stranger only if it is public. The error wraps registry.ErrNotFound.
func (t *Topics) Find(path string, stranger bool) (registry.Query, error) {
	q, _, err := t.find(path, stranger)
	return q, err
}

// A Topic is the content that GET answers with status 200.
type Topic struct {
	At      registry.Position // of its query; Body may already contain later changes
	Version string            // ETag
	Type    string
	Body    []byte
}

// Read renders a topic. It returns ErrNoTopic while GET would answer that there is no
// content.
func (t *Topics) Read(ctx context.Context, path string) (Topic, error) {
	q, topic, err := t.find(path, false)
	if err != nil {
		return Topic{}, err
	}
	const patience = 3 // attempts, because a change may be committed while it is rendered
	for try := 1; ; try++ {
		before, _, err := t.s.History.Current(q.ID, false)
		if missing(err) {
			err = fmt.Errorf("%w: %w", ErrNoTopic, err)
		}
		if err != nil {
			return Topic{}, err
		}
		x, err := t.render(ctx, path, q.ID, topic)
		if x.At = before.Position; err != nil || try == patience {
			return x, err
		}
		if now, _, err := t.s.History.Current(q.ID, false); err != nil || now.Position == before.Position {
			return x, nil // if the query has ended, its subscriptions end as well
		}
	}
}

func (t *Topics) render(ctx context.Context, path, id, topic string) (Topic, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return Topic{}, err
	}
	r.SetPathValue("id", id)
	w := &inMemory{header: http.Header{}}
	c := &call{server: t.s, w: w, r: r, signed: true, caller: registry.Caller{Role: registry.RoleAdmin}, params: params{Values: url.Values{}}}
	if err := t.routes[topic].run(c); err != nil {
		if p, told := ProblemOf(err); told && (Status(p.Kind) == http.StatusNotFound || Status(p.Kind) == http.StatusGone) {
			return Topic{}, fmt.Errorf("%w: %w", ErrNoTopic, err)
		}
		return Topic{}, fmt.Errorf("topic %s: %w", path, err)
	}
	if w.status != http.StatusOK {
		return Topic{}, fmt.Errorf("topic %s: status %d", path, w.status)
	}
	version := w.header.Get("ETag")
	if version == "" {
		return Topic{}, fmt.Errorf("topic %s: its content has no ETag, and so no version", path)
	}
	return Topic{Version: version, Type: w.header.Get("Content-Type"), Body: w.body.Bytes()}, nil
}

// An inMemory keeps a response in memory.
type inMemory struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (p *inMemory) Header() http.Header { return p.header }

func (p *inMemory) WriteHeader(status int) {
	if p.status == 0 {
		p.status = status
	}
}

func (p *inMemory) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.body.Write(b)
}
