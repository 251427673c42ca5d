package mcp

// This file has the tools, each a few calls of the API.

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

const (
	mostAnswer = 1 << 20 // bytes of an answer, about: of all copies of its data, escaped
	usualRows  = 50
	mostRows   = 1000
	usualFound = 20
	mostFound  = 100
	mostText   = 400 // characters of the text of a query in a list
)

// A tool is what a model may call.
type tool struct {
	name, title, about string
	adds               bool           // it stores something
	required           []string       // arguments
	arguments          map[string]any // schemas of the arguments
	run                func(*call) (answer, error)
}

// An answer is the structured content of a tool. Text of strangers is in Data only.
type answer struct {
	Data     any    `json:"data"`
	Position string `json:"position,omitempty"` // of the result: ask for the changes after it
	Next     string `json:"next,omitempty"`     // for the next call
	More     *bool  `json:"more,omitempty"`     // whether there is more already
}

func text(about string) map[string]any {
	return map[string]any{"type": "string", "description": about}
}

func number(about string, most int) map[string]any {
	return map[string]any{"type": "integer", "minimum": 1, "maximum": most, "description": about}
}

var queryText = text("The id or name of a query or watch.")

// tools is in the order in which a model meets them.
var tools = []tool{
	{name: "find", title: "Find queries and watches", run: (*call).find,
		about: "Lists the queries and watches of this server whose name, id, text or description has all the given words.",
		arguments: map[string]any{"words": text("Words to look for. Without any, all are listed."),
			"endpoint": text("Only those of the endpoint with this name."),
			"cursor":   text("The value of next of the answer before."), "limit": number("At most this many.", mostFound)}},
	{name: "watch", title: "Watch a thing or a query", adds: true, run: (*call).watch,
		about: "Begins to watch something: give iri (what is watched is a resource, named by its IRI or by a link to its page) " +
			"or sparql (the text of a SELECT, ASK, CONSTRUCT or DESCRIBE query). It is stored and runs from now on. " +
			"Watching the same thing again returns the same query.",
		arguments: map[string]any{
			"iri":      text("An IRI, or a link to a page about the thing, such as https://www.wikidata.org/wiki/Q42."),
			"sparql":   text("A SPARQL query."),
			"kind":     text("What to watch of the iri: entity (the default), instances (of the class) or members (of the category)."),
			"endpoint": text("The name of the endpoint, if there is more than one."), "name": text("Your name for it.")}},
	{name: "results", title: "Read a result", required: []string{"query"}, run: (*call).results,
		about: "Reads the result of a query, now or at a time, in pages. Keep position: the tool changes continues from it. " +
			"Read a result once; afterwards, read its changes.",
		arguments: map[string]any{"query": queryText, "at": text("A time (RFC 3339) or a position; the newest result by default."),
			"cursor": text("The value of next of the answer before. All pages are of the same result."),
			"limit":  number("At most this many rows.", mostRows)}},
	{name: "changes", title: "Read what changed", required: []string{"query"}, run: (*call).changes,
		about: "Reads what was added and removed since a position, oldest first, and the next position. Keep that and pass it " +
			"next time: nothing is missed and nothing comes twice. If the log does not reach back to the position, " +
			"the answer says gap: read the results again.",
		arguments: map[string]any{"query": queryText,
			"after": text("The position up to which you know the result. Without one, the oldest stored changes come."),
			"net": map[string]any{"type": "boolean", "description": "Add up all changes after the position to one difference. " +
				"What came and went in between is left out."},
			"limit": number("At most this many changes.", mostRows)}},
	{name: "explain", title: "Explain when a query runs", required: []string{"query"}, run: (*call).explain,
		about:     "Says how a query is doing: when it ran and runs next, why it waits, and what its endpoint answered if it fails.",
		arguments: map[string]any{"query": queryText}},
	{name: "try_rule", title: "Try an alert rule", required: []string{"query", "when"}, run: (*call).tryRule,
		about: "Evaluates an alert rule over the stored history of a query and says when it would have fired. It stores and sends nothing.",
		arguments: map[string]any{"query": queryText, "when": text("The condition, such as: rows > 100"),
			"for":             text("How long it must hold, such as 10m."),
			"keep_firing_for": text("How long it goes on firing after that, such as 1h.")}},
}

// A refusal is the answer of the API to a call that failed: a problem document.
type refusal struct {
	status  int
	problem jsontext.Value
}

// Error implements error.
func (r *refusal) Error() string { return "the API answered " + strconv.Itoa(r.status) }

// refused makes a refusal of what the API would not have been asked.
func refused(detail string) error {
	p := registry.Problem{Kind: registry.KindMalformed}
	b, err := json.Marshal(api.Problem{Type: "/problems/" + string(p.Kind), Title: p.Heading(), Status: http.StatusBadRequest, Detail: detail})
	if err != nil {
		return err
	}
	return &refusal{http.StatusBadRequest, b}
}

func (c *call) listTools() (map[string]any, error) {
	list := []map[string]any{}
	for _, t := range tools {
		schema := map[string]any{"type": "object", "properties": t.arguments, "additionalProperties": false}
		if len(t.required) > 0 {
			schema["required"] = t.required
		}
		list = append(list, map[string]any{"name": t.name, "title": t.title, "description": t.about + " " + notice, "inputSchema": schema,
			"annotations": map[string]any{"readOnlyHint": !t.adds, "destructiveHint": false,
				"idempotentHint": true, "openWorldHint": t.adds}})
	}
	return map[string]any{"tools": list, "ttlMs": 3_600_000, "cacheScope": "public"}, nil
}

// callTool runs a tool. What goes wrong in it is an answer that a model can read and correct.
func (c *call) callTool() (map[string]any, error) {
	i := slices.IndexFunc(tools, func(t tool) bool { return t.name == c.Name })
	if i < 0 {
		return nil, wrong(http.StatusOK, badParams, "there is no such tool; tools/list lists them")
	}
	c.tool = &tools[i]
	a, err := c.tool.run(c)
	var r *refusal
	switch {
	case errors.As(err, &r):
		a = answer{Data: map[string]any{"problem": r.problem}}
	case err != nil:
		return nil, err
	}
	doc, copied, err := quoted(a)
	if err != nil {
		return nil, err
	}
	content := []any{map[string]any{"type": "text", "text": copied}}
	return map[string]any{"structuredContent": doc, "content": content, "isError": r != nil}, nil
}

// arguments reads those of the tool. v has the names of their schemas.
func (c *call) arguments(v any) error {
	given := map[string]jsontext.Value{}
	if len(c.Arguments) > 0 && (jsonv2.Unmarshal(c.Arguments, &given) != nil || given == nil ||
		jsonv2.Unmarshal(c.Arguments, v, jsonv2.RejectUnknownMembers(true)) != nil) {
		return refused("the arguments do not fit the schema; there are " + strings.Join(slices.Sorted(maps.Keys(c.tool.arguments)), ", "))
	}
	for _, name := range c.tool.required {
		if text := given[name]; len(text) == 0 || string(text) == `""` {
			return refused(name + " is missing")
		}
	}
	return nil
}

// ask makes a call of the API. The body of the response must be closed.
func (c *call) ask(method, target string, body any, accept string) (*http.Response, error) {
	var send []byte
	if body != nil {
		var err error
		if send, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(c.ctx, method, target, bytes.NewReader(send))
	if err != nil {
		return nil, refused("this cannot be part of an address")
	}
	r.Header.Set("Accept", accept)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	w, err := c.api.RoundTrip(r)
	if err != nil || w.StatusCode < 300 {
		return w, err
	}
	defer w.Body.Close()
	if w.StatusCode < 400 { // a path with dots leads elsewhere
		return nil, refused("this is no id and no name")
	}
	doc, err := io.ReadAll(io.LimitReader(w.Body, mostAnswer))
	if err == nil && jsontext.Value(doc).IsValid() {
		err = &refusal{w.StatusCode, doc}
	}
	return nil, cmp.Or(err, errors.New("the API answered with something else than a problem"))
}

// whole reads a whole answer of the API, which must not be too large. instead says what to do then.
func (c *call) whole(method, target string, body any, instead string) (jsontext.Value, error) {
	w, err := c.ask(method, target, body, "application/json")
	if err != nil {
		return nil, err
	}
	defer w.Body.Close()
	b, err := io.ReadAll(io.LimitReader(w.Body, mostAnswer+1))
	if err == nil && cost(b) > mostAnswer {
		return nil, refused("the answer is too large for one message" + instead)
	}
	return b, err
}

// load reads the answer of the API to a body, or without one what is there.
func (c *call) load(target string, body, v any) error {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	w, err := c.ask(method, target, body, "application/json")
	if err != nil {
		return err
	}
	defer w.Body.Close()
	return json.NewDecoder(w.Body).Decode(v)
}

func queryPath(ref, below string) string { return "/v1/queries/" + url.PathEscape(ref) + below }

// A found is an entry of the list of find.
type found struct {
	ID        string   `json:"id"`
	Name      string   `json:"name,omitempty"`
	Describes string   `json:"describes,omitempty"` // of a watch
	Endpoint  string   `json:"endpoint"`
	Text      string   `json:"query"`
	Form      string   `json:"form"`
	State     string   `json:"state"`
	Rows      int      `json:"rows"`
	Position  string   `json:"position,omitempty"`
	ChangedAt any      `json:"changed_at"`
	CheckedAt any      `json:"checked_at"`
	Tags      []string `json:"tags,omitempty"`
}

func foundOf(q *api.Query, describes string) found {
	f := found{ID: q.ID, Name: q.Name, Endpoint: q.Endpoint, Describes: shortened(describes, mostText),
		Text: shortened(q.Query, mostText), Form: string(q.Form), State: string(q.State), Rows: q.Rows, ChangedAt: q.ChangedAt,
		CheckedAt: q.CheckedAt, Tags: q.Tags}
	if q.Seq > 0 {
		f.Position = registry.Position{Epoch: q.Epoch, Seq: q.Seq}.String()
	}
	return f
}

func shortened(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// find looks through the watches first, because the store does not know the labels of what is watched. Then it looks in
// the store for the longest word, and for the others in what that returns.
func (c *call) find() (answer, error) {
	in := struct {
		Words    string `json:"words"`
		Endpoint string `json:"endpoint"`
		Cursor   string `json:"cursor"`
		Limit    int    `json:"limit"`
	}{Limit: usualFound}
	if err := c.arguments(&in); err != nil {
		return answer{}, err
	}
	if in.Limit < 1 || in.Limit > mostFound {
		return answer{}, refused("limit lies between 1 and " + strconv.Itoa(mostFound))
	}
	words := strings.Fields(strings.ToLower(in.Words))
	from, watches := strings.CutPrefix(in.Cursor, watchCursor)
	if len(words) > 0 && (watches || in.Cursor == "") {
		list, next, err := c.findWatches(words, in.Endpoint, from, in.Limit)
		if err != nil || next != "" || len(list) > 0 {
			return answer{Data: list, Next: cmp.Or(next, queryCursor)}, err
		}
		in.Cursor = ""
	}
	p := url.Values{"limit": {strconv.Itoa(in.Limit)}}
	set(p, "endpoint", in.Endpoint)
	if set(p, "cursor", strings.TrimPrefix(in.Cursor, queryCursor)); len(words) > 0 {
		p.Set("q", slices.MaxFunc(words, func(a, b string) int { return len(a) - len(b) }))
	}
	var page struct {
		Queries []api.Query `json:"queries"`
		Next    string      `json:"next"`
	}
	if err := c.load("/v1/queries?"+p.Encode(), nil, &page); err != nil {
		return answer{}, err
	}
	var known struct { // the watches of the page, which were found before
		Watches []api.Watch `json:"watches"`
	}
	if len(words) > 0 {
		if err := c.load("/v1/watches?"+p.Encode(), nil, &known); err != nil {
			return answer{}, err
		}
	}
	list := []found{}
	for i := range page.Queries {
		f := foundOf(&page.Queries[i], "")
		if f.has(words, page.Queries[i].Query) && !slices.ContainsFunc(known.Watches, func(w api.Watch) bool { return w.ID == f.ID }) {
			list = append(list, f)
		}
	}
	if page.Next != "" {
		page.Next = queryCursor + page.Next
	}
	return answer{Data: list, Next: page.Next}, nil
}

// Cursors of find begin with what is looked through next. The rest is a cursor of the API.
const (
	watchCursor = "watches/"
	queryCursor = "queries/"
)

// mostWatches is how many watches one call looks through.
const mostWatches = 1000

// findWatches looks through the watches after a cursor. next is the cursor for those that are left.
func (c *call) findWatches(words []string, endpoint, from string, limit int) (list []found, next string, err error) {
	p := url.Values{"limit": {"200"}}
	set(p, "endpoint", endpoint)
	list = []found{}
	for seen := 0; ; {
		set(p, "cursor", from)
		var page struct {
			Watches []api.Watch `json:"watches"`
			Next    string      `json:"next"`
		}
		if err := c.load("/v1/watches?"+p.Encode(), nil, &page); err != nil {
			return nil, "", err
		}
		for i := range page.Watches {
			w := &page.Watches[i]
			f := foundOf(&w.Query, w.Describes)
			if !f.has(words, w.Query.Query) {
				continue
			}
			if len(list) == limit {
				return list, watchCursor + list[limit-1].ID, nil
			}
			list = append(list, f)
		}
		if seen += len(page.Watches); page.Next == "" {
			return list, "", nil
		}
		if from = page.Next; seen >= mostWatches {
			return list, watchCursor + from, nil
		}
	}
}

// has reports whether all words occur in what is known of a query with a text.
func (f *found) has(words []string, text string) bool {
	all := strings.ToLower(strings.Join(append([]string{f.ID, f.Name, f.Describes, f.Endpoint, text}, f.Tags...), "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) })
}

func set(p url.Values, name, value string) {
	if value != "" {
		p.Set(name, value)
	}
}

func (c *call) watch() (answer, error) {
	var in struct {
		IRI      string `json:"iri"`
		SPARQL   string `json:"sparql"`
		Kind     string `json:"kind"`
		Endpoint string `json:"endpoint"`
		Name     string `json:"name"`
	}
	if err := c.arguments(&in); err != nil {
		return answer{}, err
	}
	body := map[string]string{}
	given := map[string]string{"endpoint": in.Endpoint, "name": in.Name, "query": in.SPARQL, "link": in.IRI, "kind": in.Kind}
	for name, value := range given {
		if value != "" {
			body[name] = value
		}
	}
	var q api.Query
	var w api.Watch
	switch {
	case (in.IRI == "") == (in.SPARQL == ""):
		return answer{}, refused("give either iri or sparql")
	case in.SPARQL != "":
		if err := c.load("/v1/queries", body, &q); err != nil {
			return answer{}, err
		}
	default:
		if err := c.load("/v1/watches", body, &w); err != nil {
			return answer{}, err
		}
		q = w.Query
	}
	f := foundOf(&q, w.Describes)
	return answer{Data: f, Position: f.Position}, nil
}

const (
	typeSRJ     = "application/sparql-results+json"
	typeTriples = "application/n-triples"
	typeJSONLD  = "application/ld+json"
)

func (c *call) results() (answer, error) {
	in := struct {
		Query  string `json:"query"`
		At     string `json:"at"`
		Cursor string `json:"cursor"`
		Limit  int    `json:"limit"`
	}{Limit: usualRows}
	if err := c.arguments(&in); err != nil {
		return answer{}, err
	}
	from := 0
	if in.Cursor != "" {
		at, skip, ok := strings.Cut(in.Cursor, "/")
		n, err := strconv.Atoi(skip)
		if !ok || err != nil || n < 0 || in.At != "" {
			return answer{}, refused("a cursor is the value of next of the answer before, and comes without at")
		}
		in.At, from = at, n
	}
	if in.Limit < 1 || in.Limit > mostRows {
		return answer{}, refused("limit lies between 1 and " + strconv.Itoa(mostRows))
	}
	w, err := c.ask(http.MethodGet, queryPath(in.Query, "/results")+pointIn(in.At), nil, typeSRJ+", "+typeTriples+";q=0.9")
	if err != nil {
		return answer{}, err
	}
	defer w.Body.Close()
	read := readTable
	if w.Header.Get("Content-Type") == typeTriples {
		read = readTriples
	}
	t, err := read(w.Body, from, in.Limit)
	if err != nil {
		return answer{}, err
	}
	a := answer{Data: t, Position: positionOf(w.Header.Get("ETag")), More: &t.more}
	if t.more {
		a.Next = a.Position + "/" + strconv.Itoa(from+len(t.Rows)+len(t.Triples))
	}
	return a, nil
}

// pointIn returns the parameter that chooses a state of a result.
func pointIn(at string) string {
	switch _, err := time.Parse(time.RFC3339, at); {
	case at == "":
		return ""
	case err == nil:
		return "?at=" + url.QueryEscape(at)
	}
	return "?seq=" + url.QueryEscape(at)
}

// positionOf reads a position out of the validator of a result, "epoch.number.format".
func positionOf(tag string) string {
	tag = strings.Trim(tag, `"`)
	tag = tag[:max(0, strings.LastIndexByte(tag, '.'))]
	i := strings.LastIndexByte(tag, '.')
	if i < 0 {
		return ""
	}
	return tag[:i] + ":" + tag[i+1:]
}

// readTriples is readTable for a graph, which has a triple on each line.
func readTriples(r io.Reader, from, limit int) (t table, err error) {
	b := bufio.NewReader(r)
	t.Triples = []string{}
	for i, size := 0, 0; ; i++ {
		line, err := b.ReadString('\n')
		switch {
		case errors.Is(err, io.EOF) && line == "":
			return t, nil
		case err != nil && !errors.Is(err, io.EOF):
			return t, err
		case i < from:
			continue
		}
		triple := strings.TrimSuffix(line, "\n")
		doc, err := json.Marshal(triple)
		if err != nil {
			return t, err
		}
		each := cost(doc)
		if len(t.Triples) == limit || size+each > mostAnswer && len(t.Triples) > 0 {
			t.more = true
			return t, nil
		}
		if each > mostAnswer {
			triple, each = shortened(triple, mostText), 0
		}
		size += each
		t.Triples = append(t.Triples, triple)
	}
}

func (c *call) changes() (answer, error) {
	in := struct {
		Query string `json:"query"`
		After string `json:"after"`
		Net   bool   `json:"net"`
		Limit int    `json:"limit"`
	}{Limit: usualFound}
	if err := c.arguments(&in); err != nil {
		return answer{}, err
	}
	if in.Net {
		return c.netChange(in.Query, in.After)
	}
	return c.changesAfter(in.Query, in.After, in.Limit)
}

// changesAfter returns a page of the log. It ends before a change that would make it too large; one that is too large
// on its own comes without its rows.
func (c *call) changesAfter(query, after string, limit int) (answer, error) {
	p := url.Values{"limit": {strconv.Itoa(limit)}}
	set(p, "after", after)
	w, err := c.ask(http.MethodGet, queryPath(query, "/changes?")+p.Encode(), nil, "application/json")
	if err != nil {
		return answer{}, err
	}
	defer w.Body.Close()
	var list []jsontext.Value
	more, next := false, ""
	d := jsontext.NewDecoder(w.Body)
	err = members(d, func(name string) (err error) {
		if name != "changes" {
			return decode(d, &next)
		}
		if list, more, err = page(d, 0, limit, withoutRows); more {
			return errEnough
		}
		return err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return answer{}, err
	}
	var last struct {
		Epoch string `json:"epoch"`
		Seq   uint64 `json:"seq"`
	}
	if more {
		if err := json.Unmarshal(list[len(list)-1], &last); err != nil {
			return answer{}, err
		}
		next = registry.Position{Epoch: last.Epoch, Seq: last.Seq}.String()
	}
	if !more { // a page of the store may end early
		if more, err = c.follows(query, next); err != nil {
			return answer{}, err
		}
	}
	return answer{Data: list, Next: next, More: &more}, nil
}

// follows reports whether a query has moved on from a position.
func (c *call) follows(query, at string) (bool, error) {
	p, err := registry.ParsePosition(at)
	if err != nil {
		return false, err
	}
	var q api.Query
	if err := c.load(queryPath(query, ""), nil, &q); err != nil {
		return false, err
	}
	return q.Seq > 0 && (q.Epoch != p.Epoch || q.Seq > p.Seq), nil
}

// withoutRows returns a change whose rows are too many for an answer.
func withoutRows(change jsontext.Value) (jsontext.Value, error) {
	var m map[string]jsontext.Value
	if err := json.Unmarshal(change, &m); err != nil {
		return nil, err
	}
	delete(m, "added")
	delete(m, "removed")
	m["truncated"] = jsontext.Value("true")
	return json.Marshal(m)
}

// netChange returns the difference between a position and the newest result.
func (c *call) netChange(query, after string) (answer, error) {
	doc, err := c.whole(http.MethodGet, queryPath(query, "/changes/diff?from=")+url.QueryEscape(after), nil, ": read the results again")
	if err != nil {
		return answer{}, err
	}
	var d struct {
		To api.Version `json:"to"`
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return answer{}, err
	}
	return answer{Data: doc, Next: registry.Position{Epoch: d.To.Epoch, Seq: d.To.Seq}.String()}, nil
}

func (c *call) explain() (answer, error) {
	var in struct {
		Query string `json:"query"`
	}
	if err := c.arguments(&in); err != nil {
		return answer{}, err
	}
	doc, err := c.whole(http.MethodGet, queryPath(in.Query, "/explain"), nil, "")
	return answer{Data: doc}, err
}

func (c *call) tryRule() (answer, error) {
	var in registry.RuleSettings
	if err := c.arguments(&in); err != nil {
		return answer{}, err
	}
	in.Name = cmp.Or(in.Name, "trial")
	doc, err := c.whole(http.MethodPost, "/v1/rules/try", in, "")
	return answer{Data: doc}, err
}
