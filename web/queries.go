package web

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/freshet/freshet/registry"
)

const (
	usualPage = 100
	mostPage  = 1000
)

func listQueries(c *call) error {
	f, err := c.filter()
	if err != nil {
		return err
	}
	limit, err := c.limit(usualPage, mostPage)
	if err != nil {
		return err
	}
	cursor, err := c.cursor("q_")
	if err != nil {
		return err
	}
	items, next, err := c.Queries.List(f, cursor, limit)
	if err != nil {
		return err
	}
	page := struct {
		Queries []queryView `json:"queries"`
		Next    string      `json:"next,omitempty"`
	}{make([]queryView, len(items)), next}
	v := c.viewer()
	if err := v.expect(items...); err != nil {
		return err
	}
	for i, it := range items {
		if page.Queries[i], err = v.item(it); err != nil {
			return err
		}
	}
	if next != "" {
		c.w.Header().Set("Link", "<"+c.nextPage(next)+`>; rel="next"`)
	}
	return c.json(http.StatusOK, page)
}

// nextPage returns the URL of the next page: the known parameters with a new cursor.
func (c *call) nextPage(cursor string) string {
	p := url.Values{"cursor": {cursor}}
	for _, k := range []string{"endpoint", "state", "tag", "q", "limit"} {
		if s := c.params.Get(k); s != "" {
			p.Set(k, s)
		}
	}
	return c.url("/v1/queries?" + p.Encode())
}

// A registrationBody is a registration as JSON.
type registrationBody struct {
	Endpoint        string            `json:"endpoint"`
	Query           string            `json:"query"`
	Name            string            `json:"name"`
	Tags            []string          `json:"tags"`
	Weight          float64           `json:"weight"`
	MaxStaleness    registry.Duration `json:"max_staleness"`
	MinInterval     registry.Duration `json:"min_interval"`
	Alone           bool              `json:"alone"`
	Ordered         *bool             `json:"ordered"`
	DefaultGraphURI []string          `json:"default_graph_uri"`
	NamedGraphURI   []string          `json:"named_graph_uri"`
	From            *time.Time        `json:"from"`
	Until           *time.Time        `json:"until"`
	Public          bool              `json:"public"`
	Urgency         string            `json:"urgency"`
	Life            string            `json:"life"`
	Replace         bool              `json:"replace"`
}

// registration reads a registration: JSON, or a bare query with the fields in the URL.
func (c *call) registration() (registry.Registration, error) {
	typ, err := c.mediaType(typeJSON, typeSPARQL)
	if err != nil {
		return registry.Registration{}, err
	}
	if typ == typeSPARQL {
		var text []byte
		if err := c.read(func(r io.Reader) (err error) {
			text, err = io.ReadAll(r)
			return err
		}); err != nil {
			return registry.Registration{}, err
		}
		if !utf8.Valid(text) {
			return registry.Registration{}, malformed("", "the query text is not valid UTF-8")
		}
		reg, err := c.fromParams()
		reg.Text = string(text)
		return reg, err
	}
	var body registrationBody
	err = c.read(func(r io.Reader) error { return readJSON(r, &body) })
	return registry.Registration{Endpoint: body.Endpoint, Text: body.Query, Name: body.Name, Tags: body.Tags, Weight: body.Weight,
		MaxStaleness: body.MaxStaleness, MinInterval: body.MinInterval, Alone: body.Alone, Ordered: body.Ordered, DefaultGraphURI: body.DefaultGraphURI,
		NamedGraphURI: body.NamedGraphURI, From: body.From, Until: body.Until, Public: body.Public, Urgency: body.Urgency, Life: body.Life, Replace: body.Replace}, err
}

// lists are the fields of a registration whose parameter may be repeated.
var lists = []string{"tags", "default_graph_uri", "default-graph-uri", "named_graph_uri", "named-graph-uri"}

// fromParams reads the fields of a registration from the URL. For the graphs it also
// accepts the spellings of the SPARQL 1.1 Protocol.
func (c *call) fromParams() (reg registry.Registration, err error) {
	for name, values := range c.params {
		one := values[0]
		if len(values) > 1 && !slices.Contains(lists, name) {
			return reg, malformed("?"+name, "%s is given twice", name)
		}
		switch name {
		case "endpoint":
			reg.Endpoint = one
		case "name":
			reg.Name = one
		case "tags":
			reg.Tags = values
		case "weight":
			reg.Weight, err = strconv.ParseFloat(one, 64)
		case "max_staleness":
			err = reg.MaxStaleness.UnmarshalText([]byte(one))
		case "min_interval":
			err = reg.MinInterval.UnmarshalText([]byte(one))
		case "alone":
			reg.Alone, err = strconv.ParseBool(one)
		case "ordered":
			var b bool
			b, err = strconv.ParseBool(one)
			reg.Ordered = &b
		case "default_graph_uri", "default-graph-uri":
			reg.DefaultGraphURI = append(reg.DefaultGraphURI, values...)
		case "named_graph_uri", "named-graph-uri":
			reg.NamedGraphURI = append(reg.NamedGraphURI, values...)
		case "from":
			reg.From, err = parseTime(one)
		case "until":
			reg.Until, err = parseTime(one)
		case "public":
			reg.Public, err = strconv.ParseBool(one)
		case "urgency":
			reg.Urgency = one
		case "life":
			reg.Life = one
		case "replace":
			reg.Replace, err = strconv.ParseBool(one)
		case "run": // of validate
		default:
			return reg, malformed("", "the URL has a parameter that is not a field of a registration")
		}
		if err != nil {
			return reg, malformed("?"+name, "this value does not fit the field")
		}
	}
	return reg, nil
}

func parseTime(s string) (*time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	return &t, err
}

func registerQuery(c *call) error {
	reg, err := c.registration()
	if err != nil {
		return err
	}
	q, created, err := c.Registry.Register(c.caller, reg)
	if err != nil {
		return err
	}
	v, err := c.viewer().id(q.ID)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	c.w.Header().Set("Location", c.url("/v1/queries/"+url.PathEscape(q.ID)))
	return c.json(status, v)
}

// answer answers with the resource of a query that was just edited.
func (c *call) answer(status int, q registry.Query, err error) error {
	if err != nil {
		return err
	}
	v, err := c.viewer().id(q.ID)
	if err != nil {
		return err
	}
	if h, ok := q.Holder(c.caller.Name); ok {
		c.w.Header().Set("ETag", settingsTag(h))
	}
	return c.json(status, v)
}

func showQuery(c *call) error {
	q, err := c.query()
	return c.answer(http.StatusOK, q, err)
}

// A patchBody is a merge patch of a registration.
type patchBody struct {
	Name         member[string]            `json:"name"`
	Tags         member[[]string]          `json:"tags"`
	Weight       member[float64]           `json:"weight"`
	MaxStaleness member[registry.Duration] `json:"max_staleness"`
	MinInterval  member[registry.Duration] `json:"min_interval"`
	Alone        member[bool]              `json:"alone"`
	From         member[time.Time]         `json:"from"`
	Until        member[time.Time]         `json:"until"`
	Public       member[bool]              `json:"public"`
	Urgency      member[string]            `json:"urgency"`
	Life         member[string]            `json:"life"`
}

func patchQuery(c *call) error {
	var body patchBody
	if err := c.decode(&body, typeMerge, typeJSON); err != nil {
		return err
	}
	q, err := c.patchHeld(registry.Patch{Name: body.Name.pointer(), Tags: body.Tags.pointer(), Weight: body.Weight.pointer(),
		MaxStaleness: body.MaxStaleness.pointer(), MinInterval: body.MinInterval.pointer(), Alone: body.Alone.pointer(), From: body.From.pointer(), Until: body.Until.pointer(),
		Public: body.Public.pointer(), Urgency: body.Urgency.pointer(), Life: body.Life.pointer()})
	return c.answer(http.StatusOK, q, err)
}

// patchHeld edits the caller's registration. It releases the lock before the answer is
// written, because a client may be slow to read it.
func (c *call) patchHeld(p registry.Patch) (registry.Query, error) {
	c.edit.Lock()
	defer c.edit.Unlock()
	q, err := c.heldQuery()
	if err != nil {
		return q, err
	}
	return c.Registry.Patch(c.caller, q.ID, p)
}

// heldQuery returns the query of the path after it has checked If-Match against the
// caller's registration.
func (c *call) heldQuery() (registry.Query, error) {
	q, err := c.query()
	if err != nil {
		return q, err
	}
	h, _ := q.Holder(c.caller.Name)
	return q, c.ifMatch(settingsTag(h))
}

func releaseQuery(c *call) error {
	force, err := c.flag("force")
	if err != nil {
		return err
	}
	c.edit.Lock()
	defer c.edit.Unlock()
	q, err := c.heldQuery()
	if err != nil {
		return err
	}
	if err := c.Registry.Release(c.caller, q.ID, force); err != nil {
		return err
	}
	return c.noContent()
}

func refreshQuery(c *call) error { return c.act(http.StatusAccepted, c.Registry.Refresh) }
func pauseQuery(c *call) error   { return c.act(http.StatusOK, c.Registry.Pause) }
func resumeQuery(c *call) error  { return c.act(http.StatusOK, c.Registry.Resume) }

func (c *call) act(status int, do func(registry.Caller, string) (registry.Query, error)) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	q, err = do(c.caller, q.ID)
	return c.answer(status, q, err)
}
