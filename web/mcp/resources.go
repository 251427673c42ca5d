package mcp

// This file has the resources, and listening to them.

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

// Resources are named freshet://queries/{query}/results{?at} and freshet://queries/{query}/changes{?after}.
const scheme = "freshet://queries/"

func resource(query, kind string) string { return scheme + url.PathEscape(query) + "/" + kind }

// parseURI returns the query, results or changes, and the position or time.
func parseURI(uri string) (query, kind, at string, err error) {
	unknown := wrong(http.StatusOK, badParams, "a resource is named %s{query}/results{?at} or %s{query}/changes{?after}", scheme, scheme)
	rest, ok := strings.CutPrefix(uri, scheme)
	path, search, _ := strings.Cut(rest, "?")
	ref, kind, below := strings.Cut(path, "/")
	query, bad := url.PathUnescape(ref)
	p, fail := url.ParseQuery(search)
	name := map[string]string{"results": "at", "changes": "after"}[kind]
	if !ok || !below || bad != nil || fail != nil || query == "" || name == "" || len(p) > 1 || len(p) == 1 && !p.Has(name) {
		return "", "", "", unknown
	}
	return query, kind, p.Get(name), nil
}

func (c *call) listTemplates() (map[string]any, error) {
	list := []map[string]any{
		{"uriTemplate": scheme + "{query}/results{?at}", "name": "results", "title": "The result of a query",
			"description": notice, "mimeType": typeSRJ},
		{"uriTemplate": scheme + "{query}/changes{?after}", "name": "changes", "title": "What changed since a position",
			"mimeType": "application/json", "description": "Listen to it with the position that you know: " +
				"a message comes when there is more, at once if there is already. " + notice}}
	return map[string]any{"resourceTemplates": list, "ttlMs": 3_600_000, "cacheScope": "public"}, nil
}

// listResources lists the results by the ids of their queries, because strangers chose all other words.
func (c *call) listResources() (map[string]any, error) {
	p := url.Values{"limit": {"100"}}
	set(p, "cursor", c.Cursor)
	var page struct {
		Queries []api.Query `json:"queries"`
		Next    string      `json:"next"`
	}
	if err := c.load("/v1/queries?"+p.Encode(), nil, &page); err != nil {
		return nil, reported(err)
	}
	list := []map[string]any{}
	for i := range page.Queries {
		q := &page.Queries[i]
		kind := typeSRJ
		if q.Form.Graph() {
			kind = typeJSONLD
		}
		r := map[string]any{"uri": resource(q.ID, "results"), "name": q.ID, "mimeType": kind}
		if q.ChangedAt != nil {
			r["annotations"] = map[string]any{"lastModified": q.ChangedAt}
		}
		list = append(list, r)
	}
	result := map[string]any{"resources": list, "ttlMs": 0, "cacheScope": "private"}
	if page.Next != "" {
		result["nextCursor"] = page.Next
	}
	return result, nil
}

// reported makes an error of the protocol of a refusal. The problem document, which may quote an endpoint, is its data.
func reported(err error) error {
	var r *refusal
	if !errors.As(err, &r) {
		return err
	}
	e := wrong(http.StatusOK, badParams, "the server refused this, with the HTTP status %d", r.status)
	if r.status >= 500 {
		e.Code = failed
	}
	e.Data = map[string]any{"problem": r.problem}
	return e
}

func (c *call) readResource() (map[string]any, error) {
	query, kind, at, err := parseURI(c.URI)
	if err != nil {
		return nil, err
	}
	content := map[string]any{"uri": c.URI, "mimeType": "application/json"}
	if kind == "changes" {
		var a answer
		if a, err = c.changesAfter(query, at, mostRows); err == nil {
			_, content["text"], err = quoted(a)
		}
	} else {
		content["mimeType"], content["text"], err = c.wholeResult(query, at)
	}
	if err != nil {
		return nil, reported(err)
	}
	return map[string]any{"contents": []any{content}, "ttlMs": 0, "cacheScope": "private"}, nil
}

func (c *call) wholeResult(query, at string) (kind, text string, err error) {
	w, err := c.ask(http.MethodGet, queryPath(query, "/results")+pointIn(at), nil, typeSRJ+", "+typeJSONLD+";q=0.9")
	if err != nil {
		return "", "", err
	}
	defer w.Body.Close()
	b, err := io.ReadAll(io.LimitReader(w.Body, mostAnswer+1))
	if _, size := sizes(b); err == nil && size > mostAnswer {
		err = wrong(http.StatusOK, badParams, "the result is too large for one message: read it in pages with the tool results")
	}
	if err != nil {
		return "", "", err
	}
	_, text, err = quoted(json.RawMessage(b))
	return w.Header.Get("Content-Type"), text, err
}

// subscribe begins to listen. A resource with a position is compared with it at once. Without one the server cannot know
// what the client has read, so the first message says that there may be something new.
func (c *call) subscribe() (map[string]any, error) {
	if !c.modern() {
		return nil, wrong(http.StatusOK, noMethod, "listening needs the revision %s of the protocol", modern)
	}
	if len(c.Notifications.Resources) > MostTopics {
		return nil, wrong(http.StatusOK, badParams, "one caller listens to at most %d resources", MostTopics)
	}
	// Clients know a resource by the name that they gave, so the messages have that name.
	var uris []string
	meta := map[string]any{prefix + "subscriptionId": json.RawMessage(c.ID)}
	l := &registry.Updates{}
	agreed := map[string]any{}
	seen := map[string]bool{}
	for _, uri := range c.Notifications.Resources {
		if seen[uri] {
			continue
		}
		t, err := c.topic(uri)
		if err != nil {
			return nil, reported(err)
		}
		t.Message = func() []byte {
			return notification("notifications/resources/updated", map[string]any{"uri": uri, "_meta": meta})
		}
		seen[uri], uris = true, append(uris, uri)
		l.Topics, agreed["resourceSubscriptions"] = append(l.Topics, t), uris
	}
	l.First = notification("notifications/subscriptions/acknowledged", map[string]any{"notifications": agreed, "_meta": meta})
	c.listen = l
	return map[string]any{"_meta": maps.Clone(meta)}, nil
}

// topic finds the query of a resource, which the caller must be able to read.
func (c *call) topic(uri string) (t registry.UpdatesTopic, err error) {
	if len(uri) > mostURI {
		return t, wrong(http.StatusOK, badParams, "the name of a resource to listen to has at most %d bytes", mostURI)
	}
	query, _, at, err := parseURI(uri)
	if err != nil {
		return t, err
	}
	var q api.Query
	if err := c.load(queryPath(query, ""), nil, &q); err != nil {
		return t, err
	}
	t.Query = q.ID
	if at != "" {
		p, err := registry.ParsePosition(at)
		if err != nil {
			return t, wrong(http.StatusOK, badParams, "the position of a resource to listen to has the form epoch:number, as the tools say it")
		}
		t.After = &p
	}
	return t, nil
}

// notification returns a message that wants no answer. All of it can be marshalled.
func notification(method string, params map[string]any) []byte {
	b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
	return harmless(b)
}
