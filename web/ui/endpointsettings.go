package ui

import (
	"errors"
	"strings"

	"github.com/freshet/freshet/registry"
)

// revert restores the value of the configuration file.
func (v endpointHandler) revert() error {
	name, setting := v.r.PathValue("name"), v.r.URL.Query().Get("setting")
	if _, err := v.Registry.RevertEndpoint(name, setting); err != nil {
		return v.refused("revert-refused", err, endpointPath(name)+"#settings")
	}
	v.say("good", "endpoint-reverted", name, setting)
	return v.to(endpointPath(name) + "#settings")
}

// errForm aborts an edit whose form already shows the error.
var errForm = errors.New("the form says what is wrong")

// save applies the settings of the form.
func (v endpointHandler) save() error {
	name := v.r.PathValue("name")
	f := v.typed(settingNames)
	stale := false
	var was registry.Endpoint
	e, err := v.Registry.UpdateEndpoint(v.caller, name, func(e *registry.Endpoint) error {
		if stale = f.Get("tag") != tagOf(*e); stale {
			return errForm
		}
		was = *e
		if f.apply(e); f.Status != 0 {
			return errForm
		}
		return nil
	})
	if stale {
		v.say("fail", "endpoint-stale", name, "")
		return v.to(endpointPath(name) + "#settings")
	}
	if err != nil && f.Status == 0 {
		err = f.refuse(err)
	}
	switch {
	case f.Status != 0:
		return v.settingsAgain(name, f)
	case err != nil:
		return err
	}
	sources, err := v.Registry.Sources(name)
	if err != nil {
		return err
	}
	var notes []string // when the configuration file will override the edit
	for _, note := range registry.Overridden(was, e, sources) {
		notes = append(notes, sentence(note))
	}
	v.say("good", "endpoint-saved", name, strings.Join(notes, " "))
	return v.to(endpointPath(name))
}

// settingsAgain shows the page again with the submitted values and their errors.
func (v endpointHandler) settingsAgain(name string, f form) error {
	e, err := v.Registry.Endpoint(name)
	if err != nil {
		return err
	}
	s := settingsOf(e)
	f.Values.Set("tag", s.Get("tag"))
	s.form = f
	c, err := v.show(e, s)
	if err != nil {
		return err
	}
	return v.again(f, "endpoint", "endpoints", c)
}
