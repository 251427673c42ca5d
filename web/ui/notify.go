package ui

import (
	"cmp"
	"net/http"
	"net/mail"
	"strings"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// A notifyForm asks where people are. The template "notify-form" shows it on the pages of queries, of watches
// and wherever else something is to be told.
type notifyForm struct {
	form
	Action string // where it is posted to
	Tested string // the kind of the service that has taken the test message
}

var notifyFields = []string{"notify", "digest", "quiet", "zone", "most"}

// receiverOf reads the form.
func receiverOf(f form) registry.ReceiverRequest {
	return registry.ReceiverRequest{Address: addressIn(strings.TrimSpace(f.Get("notify"))), Quiet: quietOf(f)}
}

// addressIn returns the address of a receiver. People write that of e-mail without mailto.
func addressIn(text string) string {
	if a, err := mail.ParseAddress(text); err == nil && a.Address == text {
		return "mailto:" + text
	}
	return text
}

// quietFields are those of the template "quiet-fields".
var quietFields = []string{"digest", "quiet", "zone", "most", "repeat"}

// quietOf reads when people may be told something.
func quietOf(f form) registry.Quiet {
	get := func(name string) string { return strings.TrimSpace(f.Get(name)) }
	return registry.Quiet{Digest: get("digest"), Zone: get("zone"), Hours: get("quiet"), Most: get("most"), Repeat: get("repeat")}
}

// quietFor returns what a receiver of a rule takes of the form.
func quietFor(kind string, q registry.Quiet) registry.Quiet {
	switch kind {
	case "alertmanager":
		return registry.Quiet{}
	case "webhook":
		return registry.Quiet{Repeat: q.Repeat}
	}
	return q
}

// testAll sends a test message to those receivers that people read, and returns the kinds of those that took it.
func (v notifyHandler) testAll(list []registry.Receiver) (kinds []string, err error) {
	for _, to := range list {
		address := to.Address
		switch to.Kind {
		case "alertmanager", "webhook":
			continue
		case "email":
			address = "mailto:" + address
		}
		kind, wrong := v.Receivers.Test(v.r.Context(), v.caller, address)
		if wrong != nil {
			err = cmp.Or(err, wrong)
			continue
		}
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 && err == nil {
		err = registry.BadSetting("/notify", "there is no receiver that people read: name a service or an e-mail address")
	}
	return kinds, err
}

// act sends a test message to the receiver of the form, or else does the work of the form. done is
// false if the form is to be shown again, with what it says.
func (f *notifyForm) act(v *visit, receivers web.Receivers, save func(registry.ReceiverRequest) error) (done bool, err error) {
	r := receiverOf(f.form)
	if f.Get("do") == "test" {
		f.Tested, err = receivers.Test(v.r.Context(), v.caller, r.Address)
	} else {
		err = save(r)
		done = err == nil
	}
	if err != nil {
		return false, f.refuse(err)
	}
	return done, nil
}

// notifyForm is the form of the page of a query.
func (v queryHandler) notifyForm(q *registry.Query) *notifyForm {
	if !v.May(registry.RoleApp) {
		return nil
	}
	return &notifyForm{form: form{Fields: notifyFields}, Action: queryPath(q.ID) + "/notify"}
}

// notify tells people the changes of the query of the path.
func (v queryHandler) notify() error {
	q, err := v.resolve()
	if err != nil {
		return err
	}
	f := notifyForm{form: v.typed(notifyFields), Action: queryPath(q.ID) + "/notify"}
	done, err := f.act(v.visit, v.Receivers, func(r registry.ReceiverRequest) error {
		r.Query = q.ID
		s, err := v.Receivers.Create(v.caller, r)
		switch {
		case err != nil:
		case s.State == registry.SubscriptionPaused:
			v.say("warn", "notify-paused", s.Callback, "")
		default:
			v.say("good", "notify-added", s.Callback, "")
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case done:
		return v.to(queryPath(q.ID) + "#who")
	}
	c, err := v.page()
	if err != nil {
		return err
	}
	if d, ok := c.Data.(queryPage); ok {
		d.Notify = &f
		c.Data = d
	}
	return v.again(f.form, "query", "queries", c)
}

// worker serves the service worker, under an address that never changes: a browser is told as long as it stays.
func (v notifyHandler) worker() error {
	h := v.w.Header()
	h.Set("Content-Type", types[".js"])
	h.Set("Cache-Control", "no-cache")
	writeAll(v.w, v.r, http.StatusOK, v.assets["push.js"].plain)
	return nil
}

// key serves the key that a browser subscribes with.
func (v notifyHandler) key() error {
	key, err := v.Receivers.PushKey()
	if err == nil && key == "" {
		err = &registry.Problem{Kind: registry.KindNotFound, Detail: "This server tells browsers nothing."}
	}
	if err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	writeAll(v.w, v.r, http.StatusOK, []byte(key))
	return nil
}
