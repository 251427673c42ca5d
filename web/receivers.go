// This file serves the receivers that people read.

package web

import (
	"net/http"
	"net/url"

	"github.com/freshet/freshet/registry"
)

func (c followerAPI) createReceiver() error {
	var r registry.ReceiverRequest
	if err := c.decode(&r, typeJSON); err != nil {
		return err
	}
	s, err := c.Receivers.Create(c.caller, r)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", c.url("/v1/subscriptions/"+url.PathEscape(s.ID)))
	v, err := c.view(s)
	return c.reply(http.StatusCreated, v, err)
}

// testReceiver sends a test message, and answers when the service has answered.
func (c followerAPI) testReceiver() error {
	var body struct {
		Address string `json:"notify"`
	}
	if err := c.decode(&body, typeJSON); err != nil {
		return err
	}
	kind, err := c.Receivers.Test(c.r.Context(), c.caller, body.Address)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, map[string]string{"kind": kind})
}
