// This file sends alerts to webhooks.

package alert

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/webhook"
	"github.com/freshet/freshet/registry"
)

var _ = known(&kind{Kind: Kind{"webhook", "URL that gets the alerts after Standard Webhooks"}, batch: row,
	check: checkURL, secret: webhook.NewSecret, send: toWebhook})

func checkURL(o *Options, address string) (string, error) {
	_, err := o.Guard.Check(address)
	if strings.Contains(address, "?…") {
		err = errors.New("it is the masked address of another receiver, or of one that is gone: write it in full")
	}
	return address, err
}

// A webhookAlert is the data of a message to a webhook.
type webhookAlert struct {
	Rule     string              `json:"rule"`
	Name     string              `json:"name"`
	Alert    string              `json:"alert"` // the same for all messages about this set of labels
	State    registry.AlertState `json:"state"`
	Labels   map[string]string   `json:"labels"`
	Summary  string              `json:"summary,omitempty"`
	StartsAt time.Time           `json:"starts_at"`
	EndsAt   *time.Time          `json:"ends_at,omitempty"`
	Repeated bool                `json:"repeated,omitempty"` // the receiver was told before that it fires
	Query    string              `json:"query"`
	Epoch    string              `json:"epoch"`
	Seq      uint64              `json:"seq"`
	URL      string              `json:"url"`
}

// toWebhook sends messages after Standard Webhooks, one after another.
func toWebhook(o *Options, to *registry.Receiver, list []registry.AlertMessage) (send, error) {
	return func(ctx context.Context, c *deliver.Client) (r deliver.Reply) {
		began := o.Now()
		for i := range list {
			if r.Settled = i; i > 0 && o.Now().Sub(began) > rowTime {
				break // others wait for its place
			}
			body, header, err := o.webhookRequest(to, &list[i])
			if err != nil {
				return deliver.Reply{Err: err, Settled: i}
			}
			if r = deliver.HTTP(http.MethodPost, to.Address, header, body, 0)(ctx, c); !r.OK() {
				r.Settled = i
				break
			}
			r.Settled = i + 1
		}
		return r
	}, nil
}

func (o *Options) webhookRequest(to *registry.Receiver, m *registry.AlertMessage) ([]byte, http.Header, error) {
	data := webhookAlert{Rule: m.Rule, Name: m.Name, Alert: m.Alert, State: m.State, Labels: withName(m), Summary: m.Summary,
		StartsAt: m.StartsAt.UTC(), Query: m.Query, Epoch: m.Position.Epoch, Seq: m.Position.Seq, URL: o.page(m.Query),
		Repeated: m.Seq == 0}
	if !m.EndsAt.IsZero() {
		data.EndsAt = new(m.EndsAt.UTC())
	}
	content, err := json.Marshal(data)
	body, header := webhook.Message(m.ID, "alert."+string(m.State), m.At, content, []registry.Secret{{Key: to.Secret}}, o.Now())
	return body, header, err
}
