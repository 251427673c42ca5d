package web

// This file serves endpoints: their settings, slots and packs.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freshet/freshet/endpoint/pack"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/web/api"
)

func (c endpointAPI) view(e registry.Endpoint) (api.Endpoint, error) {
	e = e.Masked()
	e.DefaultGraphURI, e.NamedGraphURI, e.Blackout = list(e.DefaultGraphURI), list(e.NamedGraphURI), list(e.Blackout)
	e.Shadows, e.OwnServices = list(e.Shadows), list(e.OwnServices)
	if e.Headers == nil {
		e.Headers = map[string]string{}
	}
	if !c.caller.Role.Includes(registry.RoleAdmin) {
		e.URL, e.Auth, e.Headers = registry.MaskedURL(e.URL), registry.Auth{}, map[string]string{}
	}
	v := api.Endpoint{Endpoint: e}
	if c.Cluster != nil {
		node := c.Cluster.Owner(e.Name)
		v.Node = &node
	}
	st, err := c.Daemon.State(e.Name)
	if missing(err) {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	v.State = &api.LoopState{Running: st.Running, Next: moment(st.Next), NextTry: moment(st.NextTry), Queries: st.Queries,
		States: st.States, Debt: st.Debt, Health: st.Health,
		Results: st.Results, Oldest: st.Oldest, Halted: st.Halted}
	if st.Last.Number > 0 {
		v.State.Last = &st.Last
	}
	return v, nil
}

func (c endpointAPI) list() error {
	all, err := c.Registry.Endpoints()
	if err != nil {
		return err
	}
	views, err := viewed(all, c.view)
	return c.reply(http.StatusOK, map[string]any{"endpoints": views}, err)
}

// answer answers with an endpoint, and with notes if it was edited. The ETag covers its
// settings only.
func (c endpointAPI) answer(status int, was, e registry.Endpoint, err error) error {
	if err != nil {
		return err
	}
	v, err := c.view(e)
	if err != nil {
		return err
	}
	if v.Sources, err = c.Registry.Sources(c.caller, e.Name); err != nil {
		return err
	}
	v.Notes = registry.Overridden(was, e, v.Sources)
	if e.Feed != "" {
		if _, err := FindFeed(c.ChangeFeeds, e.Feed); missing(err) {
			v.Notes = append(v.Notes, fmt.Sprintf("feed: there is no feed %q: name another one, or none, or define it under feeds in "+
				"the configuration file", e.Feed))
		}
	}
	c.w.Header().Set("ETag", EndpointTag(e))
	return c.json(status, v)
}

// EndpointTag is the validator of an endpoint's settings.
func EndpointTag(e registry.Endpoint) string { return settingsTag(e.Masked()) }

// endpoint returns the endpoint of the path.
func (c *call) endpoint() (registry.Endpoint, error) {
	return c.Registry.Endpoint(c.r.PathValue("name"))
}

func (c endpointAPI) show(e registry.Endpoint) error { return c.answer(http.StatusOK, e, e, nil) }

func (c endpointAPI) create() error {
	var doc jsontext.Value
	var e registry.Endpoint
	var given map[string]any
	err := c.decode(&doc, typeJSON)
	if err == nil {
		doc, err = unpacked(doc)
	}
	for _, v := range []any{&e, &given} {
		if err == nil {
			err = readJSON(bytes.NewReader(doc), v)
		}
	}
	if err == nil {
		err = registry.CheckGiven(given)
	}
	if err != nil {
		return err
	}
	if e.Pause != nil {
		return errPauseField
	}
	if err := noFiles(registry.Endpoint{}, e); err != nil {
		return err
	}
	if e, err = c.Registry.CreateEndpoint(c.caller, e); err == nil {
		c.w.Header().Set("Location", c.url("/v1/endpoints/"+url.PathEscape(e.Name)))
	}
	return c.answer(http.StatusCreated, e, e, err)
}

// unpacked replaces the member "pack" of a new endpoint by the settings of the pack. The
// other members take precedence.
func unpacked(doc jsontext.Value) (jsontext.Value, error) {
	var given map[string]any
	if err := readJSON(bytes.NewReader(doc), &given); err != nil {
		return doc, err
	}
	name, ok := given["pack"]
	if !ok {
		return doc, nil
	}
	text, ok := name.(string)
	if !ok {
		return doc, malformed("/pack", "the name of a pack is a string")
	}
	p, err := pack.Find(text)
	if err != nil {
		return doc, err
	}
	delete(given, "pack")
	return json.Marshal(p.Values(given))
}

// check tries an endpoint that is not stored.
func (c endpointAPI) check() error {
	e := registry.Endpoint{Name: "checked"}
	if err := c.decode(&e, typeJSON); err != nil {
		return err
	}
	if err := noFiles(registry.Endpoint{}, e); err != nil {
		return err
	}
	leave, err := enter(c.tries, c.name())
	if err != nil {
		return err
	}
	defer leave()
	r, err := c.Check(c.r.Context(), e)
	return c.reply(http.StatusOK, r, err)
}

func (c endpointAPI) packs() error {
	return c.json(http.StatusOK, map[string]any{"packs": pack.All()})
}

func (c endpointAPI) edit() error {
	var patch map[string]any
	if err := c.decode(&patch, typeMerge, typeJSON); err != nil {
		return err
	}
	if patch == nil {
		return malformed("", "a merge patch of an endpoint is a JSON object")
	}
	var was registry.Endpoint
	e, err := c.Registry.UpdateEndpoint(c.caller, c.r.PathValue("name"), func(e *registry.Endpoint) error {
		was = *e
		if err := c.ifMatch(EndpointTag(*e)); err != nil {
			return err
		}
		next, err := patched(*e, patch)
		if err == nil {
			*e = next
		}
		return err
	})
	return c.answer(http.StatusOK, was, e, err)
}

// revert restores the configuration file's values of the settings that the
// URL names, or of all settings.
func (c endpointAPI) revert() error {
	e, err := c.Registry.RevertEndpoint(c.r.PathValue("name"), c.r.URL.Query()["setting"]...)
	return c.answer(http.StatusOK, e, e, err)
}

func (c endpointAPI) remove() error {
	check := func(e registry.Endpoint) error { return c.ifMatch(EndpointTag(e)) }
	return c.noContent(c.Registry.DeleteEndpoint(c.r.PathValue("name"), check))
}

func (c endpointAPI) pause() error {
	e, err := c.Registry.PauseEndpoint(c.caller, c.r.PathValue("name"))
	return c.answer(http.StatusOK, e, e, err)
}

func (c endpointAPI) resume() error {
	e, err := c.Registry.ResumeEndpoint(c.r.PathValue("name"))
	return c.answer(http.StatusOK, e, e, err)
}

func (c endpointAPI) tick(e registry.Endpoint) error {
	slot, err := c.Daemon.Tick(c.r.Context(), e.Name)
	return c.reply(http.StatusOK, slot, err)
}

// due answers when queries are expected to run next, in the order in which they are asked for.
func (c endpointAPI) due(e registry.Endpoint) error {
	due, err := c.Daemon.Due(e.Name, c.params.Values["query"])
	times := make([]*time.Time, len(due))
	for i, t := range due {
		times[i] = moment(t)
	}
	return c.reply(http.StatusOK, map[string]any{"next_due": times}, err)
}

const (
	usualSlots = 20
	mostSlots  = 1000
)

func (c endpointAPI) slots(e registry.Endpoint) error {
	limit := c.params.limit(usualSlots, mostSlots)
	if c.params.err != nil {
		return c.params.err
	}
	slots, err := c.History.Slots(e.Name, limit)
	return c.reply(http.StatusOK, map[string]any{"slots": list(slots)}, err)
}

// shadows compares the endpoint's policy with its shadows.
func (c endpointAPI) shadows(e registry.Endpoint) error {
	s, err := c.Shadows(c.r.Context(), e.Name)
	return c.reply(http.StatusOK, s, err)
}

func (c endpointAPI) addShadow() error {
	var b struct {
		Policy string `json:"policy"`
	}
	if err := c.decode(&b, typeJSON); err != nil {
		return err
	}
	return c.reshade(func(e *registry.Endpoint) error { return scheduler.AddShadow(e, b.Policy) })
}

// dropShadow reads the policy from a parameter, because policies contain characters that
// are special in paths.
func (c endpointAPI) dropShadow() error {
	return c.reshade(func(e *registry.Endpoint) error { return scheduler.RemoveShadow(e, c.r.URL.Query().Get("policy")) })
}

// reshade edits the endpoint's shadows and answers with the new list.
func (c endpointAPI) reshade(edit func(*registry.Endpoint) error) error {
	e, err := c.Registry.UpdateEndpoint(c.caller, c.r.PathValue("name"), edit)
	if errors.Is(err, policy.ErrPolicy) {
		return registry.WrongField("bad-endpoint", "/policy", "%v", err)
	}
	return c.reply(http.StatusOK, map[string]any{"shadows": list(e.Shadows)}, err)
}
