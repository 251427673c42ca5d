package web

import (
	"errors"
	"net/http"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
)

// shadows compares the endpoint's policy with its shadows.
func (c endpointAPI) shadows(e registry.Endpoint) error {
	s, err := c.Shadows.Compare(c.r.Context(), e.Name)
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
		return unprocessable("bad-endpoint", "/policy", "%v", err)
	}
	return c.reply(http.StatusOK, map[string]any{"shadows": list(e.Shadows)}, err)
}
