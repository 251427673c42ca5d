package web

import (
	"errors"
	"net/http"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
)

// A shadowBody names a policy.
type shadowBody struct {
	Policy string `json:"policy"`
}

// showShadows compares the endpoint's policy with its shadows.
func showShadows(c *call) error {
	if _, err := c.Registry.Endpoint(c.r.PathValue("name")); err != nil {
		return err
	}
	s, err := c.Shadows.Compare(c.r.Context(), c.r.PathValue("name"))
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, s)
}

func addShadow(c *call) error {
	var b shadowBody
	if err := c.decode(&b, typeJSON); err != nil {
		return err
	}
	return c.reshade(func(e *registry.Endpoint) error { return scheduler.AddShadow(e, b.Policy) })
}

// dropShadow reads the policy from a parameter, because policies contain characters that
// are special in paths.
func dropShadow(c *call) error {
	return c.reshade(func(e *registry.Endpoint) error { return scheduler.RemoveShadow(e, c.r.URL.Query().Get("policy")) })
}

// reshade edits the endpoint's shadows and answers with the new list.
func (c *call) reshade(edit func(*registry.Endpoint) error) error {
	e, err := c.Registry.UpdateEndpoint(c.caller, c.r.PathValue("name"), edit)
	if errors.Is(err, policy.ErrPolicy) {
		return unprocessable("bad-endpoint", "/policy", "%v", err)
	}
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, map[string]any{"shadows": list(e.Shadows)})
}
