package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

// usualGrace is the default grace period of an old secret.
const usualGrace = 24 * time.Hour

func (c followerAPI) viewWebhook(s registry.Subscription) (api.Webhook, error) {
	v := api.Webhook{DeadLetters: []api.DeadLetter{}}
	var err error
	if v.Subscription, err = c.view(s); err != nil {
		return v, err
	}
	for _, x := range s.Secrets {
		if x.Until != nil && x.Until.After(c.Now()) {
			v.OldSecret = x.Until
		}
	}
	for i := range s.Dead {
		v.DeadLetters = append(v.DeadLetters, deadLetterOf(&s.Dead[i]))
	}
	return v, nil
}

func (c followerAPI) answerWebhook(status int, s registry.Subscription, secret bool) error {
	v, err := c.viewWebhook(s)
	if err != nil {
		return err
	}
	if secret {
		v.Secret = s.Secrets[0].Key
	}
	return c.json(status, v)
}

// webhook returns the webhook of the path.
func (c *call) webhook() (registry.Subscription, error) {
	s, err := c.subscription()
	if err == nil && s.Way != registry.Webhook {
		err = notFound("this is no webhook")
	}
	return s, err
}

func (c followerAPI) listWebhooks() error {
	list, next, err := c.collect(func(s registry.Subscription) bool { return s.Way == registry.Webhook })
	if err != nil {
		return err
	}
	views, err := viewed(list, c.viewWebhook)
	if err != nil {
		return err
	}
	return c.page("webhooks", views, next, "limit")
}

func (c followerAPI) createWebhook() error {
	var r registry.WebhookRequest
	if err := c.decode(&r, typeJSON); err != nil {
		return err
	}
	s, err := c.Webhooks.Create(c.caller, r)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", c.url("/v1/webhooks/"+url.PathEscape(s.ID)))
	return c.answerWebhook(http.StatusCreated, s, true)
}

func (c followerAPI) showWebhook(s registry.Subscription) error {
	return c.answerWebhook(http.StatusOK, s, false)
}

func (c followerAPI) editWebhook(s registry.Subscription) error {
	var e registry.WebhookEdit
	err := c.patch(&e)
	if err != nil {
		return err
	}
	if s, err = c.Webhooks.Update(c.caller, s.ID, e); err != nil {
		return err
	}
	return c.answerWebhook(http.StatusOK, s, false)
}

func (c followerAPI) rotateWebhook(s registry.Subscription) error {
	var body struct {
		Secret string             `json:"secret"`
		Grace  *registry.Duration `json:"grace"`
	}
	err := c.optional(&body)
	if err != nil {
		return err
	}
	grace := usualGrace
	if body.Grace != nil {
		grace = time.Duration(*body.Grace)
	}
	if s, err = c.Webhooks.Rotate(s.ID, body.Secret, grace); err != nil {
		return err
	}
	return c.answerWebhook(http.StatusOK, s, true)
}

func (c followerAPI) replayWebhook(s registry.Subscription) error {
	var body struct {
		ID    string `json:"id"`
		After string `json:"after"`
	}
	err := c.optional(&body)
	if err != nil {
		return err
	}
	r := registry.Replay{ID: body.ID}
	if body.After != "" {
		p, err := registry.ParsePosition(body.After)
		if err != nil {
			return malformed("/after", "after is a position of the form epoch:number")
		}
		r.After = &p
	}
	if s, err = c.Webhooks.Replay(s.ID, r); err != nil {
		return err
	}
	return c.answerWebhook(http.StatusAccepted, s, false)
}

func (c followerAPI) dropWebhook(registry.Subscription) error {
	return actOnSubscription("drop")(c.call)
}
