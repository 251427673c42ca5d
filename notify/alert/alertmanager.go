// This file sends alerts to Alertmanager.

package alert

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

var _ = known(&kind{Kind: Kind{"alertmanager", "base URL of Alertmanager, e.g. http://127.0.0.1:9093"}, batch: batch,
	together: true, repeats: true,
	check: checkAlertmanager, send: toAlertmanager})

func checkAlertmanager(o *Options, address string) (string, error) {
	address = strings.TrimSuffix(strings.TrimRight(address, "/"), "/api/v2/alerts")
	_, err := o.Guard.Check(address)
	if u, _ := url.Parse(address); err == nil && u.RawQuery != "" {
		err = errors.New("it is the address of Alertmanager without a query string, such as http://alerts.example.org:9093")
	}
	return address, err
}

// A postableAlert is an alert in Alertmanager's API v2.
type postableAlert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
}

// toAlertmanager sends alerts in one request. Soon after the clock was set, Alertmanager may go by either time: an end has come
// by both, and that of an alert that fires is to come by both.
func toAlertmanager(o *Options, to *registry.Receiver, list []registry.AlertMessage) (send, error) {
	first, last := o.Now().UTC(), o.Machine().UTC()
	if last.Before(first) {
		first, last = last, first
	}
	alerts := make([]postableAlert, len(list))
	for i := range list {
		m := &list[i]
		a := postableAlert{Labels: withName(m), Annotations: map[string]string{"query": m.Query}, StartsAt: earlier(m.StartsAt, first),
			EndsAt: earlier(m.EndsAt, first), GeneratorURL: o.page(m.Query)}
		if m.Summary != "" {
			a.Annotations["summary"] = m.Summary
		}
		if m.State == registry.AlertFiring {
			a.EndsAt = last.Add(endsInResend * o.Resend)
		}
		alerts[i] = a
	}
	body, err := json.Marshal(alerts)
	return deliver.HTTP(http.MethodPost, to.Address+"/api/v2/alerts", http.Header{"Content-Type": {"application/json"}}, body, 0), err
}

// earlier returns the earlier time: a clock that was ahead must not put an alert into the future.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		a = b
	}
	return a.UTC()
}
