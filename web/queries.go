package web

// This file holds the API of queries: list, register, show, edit and release.

import (
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/freshet/freshet/registry"
)

const (
	usualPage = 100
	mostPage  = 1000
)

func (c queryAPI) list() error {
	f, limit, cursor := c.params.filter(), c.params.limit(usualPage, mostPage), c.params.cursor("q_")
	if c.params.err != nil {
		return c.params.err
	}
	items, next, err := c.Queries.List(f, cursor, limit)
	if err != nil {
		return err
	}
	v := c.viewer()
	if err := v.expect(items...); err != nil {
		return err
	}
	views, err := viewed(items, v.item)
	if err != nil {
		return err
	}
	return c.page("queries", views, next, "endpoint", "state", "tag", "q", "limit")
}

// registration reads a registration: JSON, or a bare query with the fields in the URL.
func (c queryAPI) registration() (registry.Registration, error) {
	typ, err := c.mediaType(typeJSON, typeSPARQL)
	if err != nil {
		return registry.Registration{}, err
	}
	if typ == typeSPARQL {
		text, err := io.ReadAll(c.r.Body)
		if err != nil {
			return registry.Registration{}, err
		}
		if !utf8.Valid(text) {
			return registry.Registration{}, malformed("", "the query text is not valid UTF-8")
		}
		reg, err := c.fromParams()
		reg.Text = string(text)
		return reg, err
	}
	var reg registry.Registration
	if err := c.params.among(strings.Fields(c.route.takes), " beside a registration in JSON"); err != nil {
		return reg, err
	}
	err = readJSON(c.r.Body, &reg)
	return reg, err
}

// fromParams reads the fields of a registration from the URL. For the graphs it also
// accepts the spellings of the SPARQL 1.1 Protocol.
func (c queryAPI) fromParams() (reg registry.Registration, err error) {
	fields := append(memberNames(reflect.TypeFor[registry.Registration]()), "default-graph-uri", "named-graph-uri")
	fields = slices.DeleteFunc(fields, func(name string) bool { return name == "query" })
	if err := c.params.among(append(fields, strings.Fields(c.route.takes)...), ""); err != nil {
		return reg, err
	}
	for name, values := range c.params.Values {
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
		}
		if err != nil {
			return reg, malformed("?"+name, "this value does not fit the field")
		}
	}
	return reg, nil
}

func (c queryAPI) register() error {
	reg, err := c.registration()
	if err != nil {
		return err
	}
	q, status, err := c.storeRegistration(reg, "/v1/queries/")
	if err != nil {
		return err
	}
	v, err := c.viewer().id(q.ID)
	return c.reply(status, v, err)
}

// storeRegistration stores a registration. It returns the status of the answer and sets its Location
// in a collection.
func (c queryAPI) storeRegistration(reg registry.Registration, collection string) (registry.Query, int, error) {
	q, created, err := c.Registry.Register(c.caller, reg)
	if err != nil {
		return q, 0, err
	}
	c.w.Header().Set("Location", c.url(collection+url.PathEscape(q.ID)))
	if created {
		return q, http.StatusCreated, nil
	}
	return q, http.StatusOK, nil
}

// answer answers with the resource of a query that was just edited.
func (c queryAPI) answer(status int, q registry.Query, err error) error {
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
	describeMerge(&v, &q)
	return c.json(status, v)
}

func (c queryAPI) show(q registry.Query) error { return c.answer(http.StatusOK, q, nil) }

func (c queryAPI) edit() error {
	var p registry.Patch
	if err := c.patch(&p); err != nil {
		return err
	}
	q, err := guarded(c.call, (*call).query, c.tag, func(q registry.Query) (registry.Query, error) {
		return c.Registry.Patch(c.caller, q.ID, p)
	})
	return c.answer(http.StatusOK, q, err)
}

// tag is the validator of the caller's registration of a query.
func (c queryAPI) tag(q registry.Query) string {
	h, _ := q.Holder(c.caller.Name)
	return settingsTag(h)
}

func (c queryAPI) release() error {
	force := c.params.flag("force")
	if c.params.err != nil {
		return c.params.err
	}
	_, err := guarded(c.call, (*call).query, c.tag, func(q registry.Query) (registry.Query, error) {
		return q, c.Registry.Release(c.caller, q.ID, force)
	})
	return c.noContent(err)
}

// act returns a route that performs an action on the query of the path.
func act(status int, do func(*registry.Registry, registry.Caller, string) (registry.Query, error)) func(*call) error {
	return of((*call).query, func(c queryAPI, q registry.Query) error {
		q, err := do(c.Registry, c.caller, q.ID)
		return c.answer(status, q, err)
	})
}
