package web

// This file reads the formats of hints, and serves change feeds.

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
)

const (
	typePatch     = "application/rdf-patch"
	typeTriples   = "application/n-triples"
	typeMultipart = "multipart/form-data"
)

// A hintBody is a hint in JSON: IRIs, or a changeset as N-Triples.
type hintBody struct {
	Touched *[]string `json:"touched"`
	Added   string    `json:"added"`
	Removed string    `json:"removed"`
	New     bool      `json:"new"` // queries have been registered; nothing else is said
}

// hint accepts a report that data of the endpoint has changed.
func (c endpointAPI) hint() error {
	h, err := c.readHint()
	if err != nil {
		return err
	}
	e, err := c.endpoint()
	if err != nil {
		return err
	}
	done, err := c.Hint(e.Name, h)
	return c.reply(http.StatusAccepted, done, err)
}

func (c endpointAPI) readHint() (h registry.Hint, err error) {
	if c.r.ContentLength == 0 { // an empty hint: anything may have changed
		h.All = true
		return h, nil
	}
	typ, err := c.mediaType(typeJSON, typePatch, typeTriples, typeMultipart)
	if err != nil {
		return h, err
	}
	if typ == typeJSON {
		return c.jsonHint()
	}
	read := map[string]func(io.Reader) error{typePatch: h.Patch, typeTriples: h.Triples,
		typeMultipart: func(r io.Reader) error { return c.parts(&h, r) }}[typ]
	err = unreadable(read(c.r.Body))
	return h, err
}

// unreadable describes why a body cannot be parsed, unless err is already a problem.
func unreadable(err error) error {
	var tooLarge *http.MaxBytesError
	var told *registry.Problem
	if err == nil || errors.As(err, &tooLarge) || errors.As(err, &told) {
		return err
	}
	return malformed("", "the body cannot be read: %v", err)
}

func (c endpointAPI) jsonHint() (h registry.Hint, err error) {
	var b hintBody
	if err := c.decode(&b, typeJSON); err != nil {
		return h, err
	}
	if b.New {
		return registry.Hint{New: true}, nil
	}
	if b.Touched == nil && b.Added == "" && b.Removed == "" {
		h.All = true
		return h, nil
	}
	if b.Touched != nil {
		for _, iri := range *b.Touched {
			h.Touch(iri)
		}
	}
	for _, triples := range []string{b.Removed, b.Added} {
		if err := unreadable(h.Triples(strings.NewReader(triples))); err != nil {
			return h, err
		}
	}
	return h, nil
}

// changesetParts are the form fields of a changeset.
var changesetParts = []string{"clear", "removed", "added", "reinserted"}

// parts reads a changeset from a form with N-Triples files.
func (c endpointAPI) parts(h *registry.Hint, r io.Reader) error {
	_, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return malformed("", "the Content-Type names no boundary")
	}
	form := multipart.NewReader(r, params["boundary"])
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !slices.Contains(changesetParts, part.FormName()) {
			return malformed("", "the parts of a changeset are %s", strings.Join(changesetParts, ", "))
		}
		if err := h.Triples(part); err != nil {
			return err
		}
	}
}

func (c feedAPI) list() error {
	all, err := c.ChangeFeeds.Feeds()
	if err != nil {
		return err
	}
	all = slices.Clone(all)
	for i := range all {
		all[i] = c.masked(all[i])
	}
	return c.json(http.StatusOK, map[string]any{"feeds": list(all)})
}

// masked hides the secrets of an address from all but admins, and headers from all.
func (c feedAPI) masked(f feed.Status) feed.Status {
	at := f.URL
	if f.Definition = f.Masked(); c.caller.Role.Includes(registry.RoleAdmin) {
		f.URL = at
	}
	return f
}

// FindFeed returns the feed with a name.
func FindFeed(all ChangeFeeds, name string) (feed.Status, error) {
	list, err := all.Feeds()
	if err != nil {
		return feed.Status{}, err
	}
	var names []string
	for _, f := range list {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	detail := fmt.Sprintf("there is no feed %q; the feeds are: %s", name, strings.Join(names, ", "))
	if len(names) == 0 {
		detail = fmt.Sprintf("there is no feed %q: none is defined under feeds in the configuration, and no endpoint uses one", name)
	}
	return feed.Status{}, &registry.Problem{Kind: registry.KindNotFound, Detail: detail}
}

func (c feedAPI) show() error {
	f, err := FindFeed(c.ChangeFeeds, c.r.PathValue("name"))
	return c.reply(http.StatusOK, c.masked(f), err)
}

// deltas takes a message to a feed of that kind.
func (c feedAPI) deltas() error {
	f, err := FindFeed(c.ChangeFeeds, c.r.PathValue("name"))
	if err != nil {
		return err
	}
	if f.Kind != feed.Deltas {
		return &registry.Problem{Kind: registry.KindBadSetting, Detail: "the feed " + f.Name + " is of the kind " + string(f.Kind) +
			", and is read from " + f.Masked().URL + ": only a feed of the kind deltas takes messages"}
	}
	if _, err := c.mediaType(typeJSON); err != nil {
		return err
	}
	body, err := io.ReadAll(c.r.Body)
	if err != nil {
		return unreadable(err)
	}
	events, err := feed.ReadDeltas(body, c.Now())
	if err != nil {
		return malformed("", "%v", err)
	}
	err = c.ChangeFeeds.Deltas(f.Name, events)
	return c.reply(http.StatusAccepted, map[string]int{"events": len(events)}, err)
}
