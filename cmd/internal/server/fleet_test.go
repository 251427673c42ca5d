package server

import (
	"errors"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
)

// What keeps an endpoint from being asked points at the setting to change, and
// names the remedy where that is elsewhere.
func TestEndpointThatCannotBeAsked(t *testing.T) {
	f := fleet{}
	for pointer, e := range map[string]registry.Endpoint{
		"/url":    {Name: "public", URL: "http://192.0.2.1/sparql"},
		"/budget": {Name: "slow", URL: "http://127.0.0.1/sparql", Slot: "@every 3s", Budget: registry.Duration(9e9)},
	} {
		err := registry.CheckEndpoint(e.WithDefaults(), f.check)
		var p *registry.Problem
		if !errors.As(err, &p) || len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %v", pointer, err)
			continue
		}
		if text := p.Errors[0].Detail; strings.Contains(text, "endpoint "+e.Name) || pointer == "/url" && !(strings.Contains(text, "`contact`") && strings.Contains(text, "--contact")) {
			t.Errorf("%s: %s", pointer, text)
		}
	}
}
