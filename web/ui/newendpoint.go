package ui

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	known "github.com/freshet/freshet/endpoint/pack"
	"github.com/freshet/freshet/registry"
)

// A newEndpointPage is the form for a new endpoint.
type newEndpointPage struct {
	Form      form
	List      []settingField
	More      []settingField
	Figures   settingFigures // always empty here
	Open      bool           // the additional fields are shown
	Found     *probed        // result of the trial request
	Report    *registry.Report
	Packs     []known.Pack
	NoContact bool        // public endpoints cannot be added
	Pack      *known.Pack // the one that the form is filled from, nil for none
}

// A probed endpoint has answered a trial request, or Error says why it has not.
type probed struct {
	Took  time.Duration
	Error string
	Busy  bool // others are trying queries
}

// The required and some optional fields of a new endpoint; all others have their
// defaults.
var (
	firstFields = []string{"url", "slot", "budget", "max_rows", "timeout_param"}
	moreFields  = []string{"min_gap", "headers", "auth", "username", "password"}
)

func (v newEndpointHandler) page() (content, error) {
	e, p, err := v.packed(v.r.URL.Query().Get("pack"))
	if err != nil {
		return content{}, err
	}
	f := settingsOf(e).form
	if p != nil {
		f.Values.Set("name", p.Name)
		f.Values.Set("pack", p.Name)
	}
	for _, name := range []string{"name", "url", "slot", "budget"} {
		if s := v.r.URL.Query().Get(name); s != "" {
			f.Values.Set(name, s)
		}
	}
	return v.form(f, nil), nil
}

// packed returns the settings that a form begins with: those of a pack, or the defaults
// for "".
func (v newEndpointHandler) packed(name string) (registry.Endpoint, *known.Pack, error) {
	if name == "" {
		return registry.Endpoint{}.WithDefaults(), nil, nil
	}
	p, err := known.Find(name)
	if err != nil {
		return registry.Endpoint{}, nil, err
	}
	e, err := p.Endpoint()
	return e.WithDefaults(), &p, err
}

func (v newEndpointHandler) form(f form, found *probed) content {
	p := newEndpointPage{Form: f, Found: found, Packs: known.All(), NoContact: v.NoContact}
	_, p.Pack, _ = v.packed(f.Get("pack"))
	for _, s := range settingFields {
		switch {
		case slices.Contains(firstFields, s.Name):
			p.List = append(p.List, s)
		case slices.Contains(moreFields, s.Name):
			p.More = append(p.More, s)
			p.Open = p.Open || f.Bad(s.Name) || s.Name != "min_gap" && f.Get(s.Name) != ""
		}
	}
	return content{Data: p}
}

// create tests a new endpoint or adds it, depending on the button.
func (v newEndpointHandler) create() error {
	f := v.typed(settingNames)
	usual, _, err := v.packed(f.Get("pack"))
	if err != nil {
		return err
	}
	defaults := settingsOf(usual)
	for name, values := range defaults.Values {
		if _, given := f.Values[name]; !given && name != "allow_service" && name != "allow_public" {
			f.Values[name] = values
		}
	}
	e := registry.Endpoint{Name: f.Get("name")}
	f.apply(&e)
	if f.Status != 0 {
		return v.again(f, nil)
	}
	switch f.Get("do") {
	case "try":
		return v.probe(f, e.WithDefaults())
	case "check":
		return v.check(f, e)
	}
	e, err = v.Registry.CreateEndpoint(v.caller, e)
	if err != nil {
		return f.refused(err, func() error { return v.again(f, nil) })
	}
	v.say("good", "endpoint-added", e.Name, "")
	return v.to(endpointPath(e.Name))
}

func (v newEndpointHandler) again(f form, found *probed) error {
	return v.visit.again(f, "newendpoint", "endpoints", v.form(f, found))
}

// checkTime limits a check of an endpoint.
const checkTime = 5 * time.Minute

// check tries an endpoint thoroughly, and fills the form with the settings that it
// proposes.
func (v newEndpointHandler) check(f form, e registry.Endpoint) error {
	r, busy, err := v.examine(e)
	switch {
	case busy:
		return v.again(f, &probed{Busy: true})
	case err != nil:
		return v.failed(f, err)
	}
	for _, s := range r.Settings {
		f.Values.Set(s.Name, fmt.Sprint(s.Value))
	}
	p := v.form(f, nil)
	page := p.Data.(newEndpointPage)
	page.Report = &r
	return v.visit.again(f, "newendpoint", "endpoints", content{Data: page})
}

// examine runs a check, unless too many queries and endpoints are being tried.
func (v newEndpointHandler) examine(e registry.Endpoint) (r registry.Report, busy bool, err error) {
	leave, ok := v.tries.Take(v.caller.Name)
	if !ok {
		return r, true, nil
	}
	defer leave()
	_ = http.NewResponseController(v.w).SetWriteDeadline(time.Now().Add(slowestWrite + checkTime))
	ctx, stop := context.WithTimeout(v.r.Context(), checkTime)
	defer stop()
	r, err = v.Check(ctx, e)
	return r, false, err
}

// tryTime limits the trial request to an endpoint.
const tryTime = 10 * time.Second

// probe sends a small query and describes the answer.
func (v newEndpointHandler) probe(f form, e registry.Endpoint) error {
	ctx, stop := context.WithTimeout(v.r.Context(), tryTime)
	defer stop()
	elapsed, err := v.Probe(ctx, e)
	if err == nil {
		return v.again(f, &probed{Took: elapsed})
	}
	return v.failed(f, err)
}

// failed shows why an endpoint could not be tried: beside the fields, or as its answer.
func (v newEndpointHandler) failed(f form, err error) error {
	if again := f.refuse(err); again == nil && f.Status != 0 {
		return v.again(f, nil)
	}
	f.Status = 0
	return v.again(f, &probed{Error: clip(err.Error(), longestWord)})
}
