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

// answerWebhook answers with a webhook unless err says why there is none.
func (c followerAPI) answerWebhook(status int, s registry.Subscription, secret bool, err error) error {
	if err != nil {
		return err
	}
	v, err := c.viewWebhook(s)
	if secret {
		v.Secret = s.Secrets[0].Key
	}
	return c.reply(status, v, err)
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
	return c.answerWebhook(http.StatusCreated, s, true, nil)
}

func (c followerAPI) showWebhook(s registry.Subscription) error {
	return c.answerWebhook(http.StatusOK, s, false, nil)
}

func (c followerAPI) editWebhook(s registry.Subscription) error {
	var e registry.WebhookEdit
	if err := c.patch(&e); err != nil {
		return err
	}
	s, err := c.Webhooks.Update(c.caller, s.ID, e)
	return c.answerWebhook(http.StatusOK, s, false, err)
}

func (c followerAPI) rotateWebhook(s registry.Subscription) error {
	var body struct {
		Secret string             `json:"secret"`
		Grace  *registry.Duration `json:"grace"`
	}
	if err := c.optional(&body); err != nil {
		return err
	}
	grace := usualGrace
	if body.Grace != nil {
		grace = time.Duration(*body.Grace)
	}
	s, err := c.Webhooks.Rotate(s.ID, body.Secret, grace)
	return c.answerWebhook(http.StatusOK, s, true, err)
}

func (c followerAPI) replayWebhook(s registry.Subscription) error {
	var body struct {
		ID    string `json:"id"`
		After string `json:"after"`
	}
	if err := c.optional(&body); err != nil {
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
	s, err := c.Webhooks.Replay(s.ID, r)
	return c.answerWebhook(http.StatusAccepted, s, false, err)
}

func (c followerAPI) dropWebhook(registry.Subscription) error {
	return actOnSubscription("drop")(c.call)
}
