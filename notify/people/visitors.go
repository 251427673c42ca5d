// This file serves visitors of a portal who want the changes of a public query by e-mail. They have no token.
// Nothing is sent to an address before its owner has confirmed it, except for the question whether it is
// right, and one click ends it.

package people

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"html/template"
	"net/http"
	netmail "net/mail"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

// Visitors is the caller of the subscriptions of visitors. No token has such a name.
const Visitors = "(visitors)"

// VisitorPath begins the paths that a Desk serves.
const VisitorPath = "/notify-me"

// visitorDigest is how often visitors get e-mail at most.
const visitorDigest = "1h"

// askedFor is how long a visitor has to confirm an address.
const askedFor = 24 * time.Hour

// A Desk serves the form for visitors, and the links in their e-mails.
type Desk struct {
	Manager *Manager
	Most    int // addresses with subscriptions; 0 serves no form

	clients, addresses *registry.Rates
	all                *rate.Limiter
}

// NewDesk returns a desk for at most so many subscriptions of visitors.
func NewDesk(m *Manager, most int) *Desk {
	return &Desk{Manager: m, Most: most, all: rate.NewLimiter(rate.Every(10*time.Second), 100),
		clients: registry.NewRates(rate.Every(10*time.Minute), 5), addresses: registry.NewRates(rate.Every(8*time.Hour), 3)}
}

// visitorLink is the page where a visitor confirms or ends a subscription, "" for other subscriptions.
func (t *Target) visitorLink(s *registry.Subscription) string {
	if s.Caller != Visitors || len(s.Secrets) == 0 {
		return ""
	}
	return t.opts.PublicURL + VisitorPath + "/" + s.ID + "?key=" + s.Secrets[0].Key // logs have paths only
}

// ask asks a visitor to confirm the address, once, and ends the subscription when there is no answer.
func (t *Target) ask(s *registry.Subscription, now time.Time) (deliver.Step, error) {
	switch {
	case s.ExpiresAt == nil || !now.Before(*s.ExpiresAt):
		return deliver.Step{Edit: func(s *registry.Subscription) {
			if s.State == registry.Pending {
				s.State = registry.Ended
			}
		}}, nil
	case deliver.BackingOff(s, now):
		return deliver.Step{Hold: *s.NextTry}, nil
	case s.Intent == nil:
		return deliver.Step{At: *s.ExpiresAt}, nil
	}
	link, asked := t.visitorLink(s), s.Intent.Secret
	send := t.opts.Mail.Call(service.Letter{ID: strings.ToLower(asked), At: s.Intent.At, To: s.To.Address,
		Subject: "Please confirm: " + s.Intent.Topic, Stop: link,
		Text: "Somebody, probably you, asked for the changes of \"" + s.Intent.Topic + "\" at " + t.opts.PublicURL +
			" by e-mail.\r\n\r\nIf that is right, confirm it here:\r\n" + link +
			"\r\n\r\nIf not, do nothing: no more e-mail comes.\r\n"}, t.opts.Now)
	return deliver.Step{Call: &deliver.Call{Send: send, Since: s.Intent.At, Asks: true, Done: func(s *registry.Subscription,
		r deliver.Reply) {
		switch {
		case s.State != registry.Pending:
		case s.Intent == nil || s.Intent.Secret != asked: // the visitor has asked again meanwhile
		case r.Refused(): // there is no such address
			s.State = registry.Ended
		case r.Verdict != deliver.Retry:
			s.Intent = nil
		}
	}}}, nil
}

// subscribe asks the owner of an address for a confirmation. What it answers does not depend on whether the
// address is known.
func (d *Desk) subscribe(client, query, address string) error {
	m := d.Manager
	now := m.Target.opts.Now().UTC()
	a, err := netmail.ParseAddress(address)
	if err != nil || a.Name != "" || a.Address != address || len(address) > 254 {
		return registry.BadSetting("/email", "this is not an address such as you@example.org")
	}
	q, err := d.query(query)
	if err != nil {
		return err
	}
	key := strings.ToLower(address)
	if !d.clients.Allow(client, now) || !d.addresses.Allow(owner(key), now) || !d.all.AllowN(now, 1) {
		return &registry.Problem{Kind: registry.KindRate, Detail: "there were several requests just now: try again later"}
	}
	st, _, err := m.Target.opts.Log.Current(q.ID, false)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	of := id(Visitors, q.ID, key)
	n, done := m.Engine.Claim(of, registry.People, Visitors, "")
	defer done()
	if !m.Engine.Has(of) && n.Held >= d.Most {
		return &registry.Problem{Kind: registry.KindLimit, Detail: "as many people as may get e-mail are told already"}
	}
	expires := now.Add(askedFor)
	_, err = m.Engine.Edit(of, func(s *registry.Subscription, found bool) error {
		asks := &registry.Intent{Mode: "confirm", Secret: rand.Text(), Topic: m.Target.title(&q, Visitors), At: now}
		switch {
		case found && s.State == registry.Pending && s.Intent == nil: // it is asked again, as the question may be lost
			s.Intent, s.ExpiresAt = asks, &expires
			return nil
		case found && s.State != registry.Disabled:
			return nil // it is being asked, or gets e-mail already
		}
		*s = registry.Subscription{ID: of, Way: registry.People, Caller: Visitors, Query: q.ID, To: &registry.Receiver{Kind: email,
			Address: address, Quiet: registry.Quiet{Digest: visitorDigest}},
			Callback: "mailto:" + masked(address), State: registry.Pending, CreatedAt: now, ExpiresAt: &expires, Cursor: st.Position,
			Secrets: []registry.Secret{{Key: rand.Text()}}, Intent: asks}
		return nil
	})
	return err
}

// owner is whom an address belongs to: mail services leave out what is after a plus.
func owner(address string) string {
	name, host, _ := strings.Cut(address, "@")
	name, _, _ = strings.Cut(name, "+")
	return name + "@" + host
}

// masked shows what tells addresses apart for an operator, and not who they are.
func masked(address string) string {
	name, host, _ := strings.Cut(address, "@")
	_, first := utf8.DecodeRuneInString(name)
	return name[:first] + "…@" + host
}

// query returns a query that visitors may read.
func (d *Desk) query(ref string) (registry.Query, error) {
	stranger := registry.Caller{Name: Visitors}
	q, err := d.Manager.Resolve(stranger, ref)
	if err != nil || d.Most == 0 || !stranger.MayRead(&q) {
		return q, &registry.Problem{Kind: registry.KindNotFound, Detail: "there is no such query, or its changes are not sent to visitors"}
	}
	return q, nil
}

// find returns the subscription that a link names.
func (d *Desk) find(id, secret string) (registry.Subscription, error) {
	s, err := d.Manager.Engine.Subscription(id)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return s, err
	}
	if err != nil || s.Caller != Visitors || len(s.Secrets) == 0 || subtle.ConstantTimeCompare([]byte(s.Secrets[0].Key), []byte(secret)) == 0 {
		return s, &registry.Problem{Kind: registry.KindNotFound, Detail: "this link is not valid any more: nothing is sent to you"}
	}
	return s, nil
}

// confirm begins to tell a visitor what changes.
func (d *Desk) confirm(of string) error {
	s, err := d.Manager.Engine.Subscription(of)
	if err != nil {
		return err
	}
	st, _, err := d.Manager.Target.opts.Log.Current(s.Query, false)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	_, err = d.Manager.Engine.Edit(of, func(s *registry.Subscription, found bool) error {
		if found && s.State == registry.Pending {
			s.State, s.Intent, s.ExpiresAt, s.Cursor = registry.Active, nil, nil, st.Position
		}
		return nil
	})
	return err
}

// ServeHTTP serves the form (GET with ?query=, POST), and the links in e-mails.
func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex")
	policy := "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"
	rest := strings.Trim(strings.TrimPrefix(r.URL.Path, VisitorPath), "/")
	if rest != "" { // others may show the form in a frame, but not the buttons
		policy += "; frame-ancestors 'none'"
	} else {
		h.Del("X-Frame-Options")
	}
	h.Set("Content-Security-Policy", policy)
	linked := rest != ""
	var v deskPage
	var err error
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost && r.Method != http.MethodHead:
		err = &registry.Problem{Kind: registry.KindMethodNotAllowed, Detail: "this page takes GET and POST"}
	case !linked && r.Method == http.MethodPost:
		v, err = d.posted(r)
	case !linked:
		v, err = d.form(r.URL.Query())
	default:
		v, err = d.linked(r, rest, r.URL.Query().Get("key"))
	}
	var told *registry.Problem
	status := http.StatusOK
	if errors.As(err, &told) {
		status = map[registry.Kind]int{registry.KindNotFound: 404, registry.KindRate: 429, registry.KindLimit: 503,
			registry.KindMethodNotAllowed: 405, registry.KindBadSetting: 422}[told.Kind]
		v = deskPage{Title: "That did not work", Text: told.Detail}
	} else if err != nil {
		status, v = http.StatusServiceUnavailable, deskPage{Title: "That did not work", Text: "Try again later."}
	}
	if status == 0 {
		status = http.StatusServiceUnavailable
	}
	w.WriteHeader(status)
	_ = deskTemplate.Execute(w, v) // a reader who leaves is no error of the server
}

func (d *Desk) form(q url.Values) (deskPage, error) {
	found, err := d.query(q.Get("query"))
	if err != nil {
		return deskPage{}, err
	}
	return deskPage{Title: d.Manager.Target.title(&found, Visitors), Text: "Get an e-mail when this changes.", Query: found.ID}, nil
}

func (d *Desk) posted(r *http.Request) (deskPage, error) {
	if err := r.ParseForm(); err != nil {
		return deskPage{}, registry.BadSetting("/email", "the form cannot be read")
	}
	client := registry.ClientAddress(r.RemoteAddr, r.Header["X-Forwarded-For"])
	err := d.subscribe(client, strings.TrimSpace(r.PostForm.Get("query")), strings.TrimSpace(r.PostForm.Get("email")))
	return deskPage{Title: "Look into your mailbox", Text: "An e-mail with a link is on its way. Follow the link within a day, " +
		"and you are told what changes."}, err
}

// linked serves the link of an e-mail: a page with a button, as programs follow links too, and its button.
// Mail programs post List-Unsubscribe=One-Click to the same address.
func (d *Desk) linked(r *http.Request, of, secret string) (deskPage, error) {
	s, err := d.find(of, secret)
	if err != nil {
		return deskPage{}, err
	}
	pending := s.State == registry.Pending
	switch {
	case r.Method != http.MethodPost && pending:
		return deskPage{Title: "Do you want these e-mails?", Text: "You are told what changes, until you stop it.", Do: "confirm",
			Button: "Yes, tell me"}, nil
	case r.Method != http.MethodPost:
		return deskPage{Title: "Stop these e-mails?", Text: "Nothing more is sent to you about this.", Do: "stop", Button: "Stop them"}, nil
	}
	if r.ParseForm() == nil && r.PostForm.Get("do") == "confirm" {
		return deskPage{Title: "Thank you", Text: "You are told what changes. Each e-mail has a link that stops it."}, d.confirm(of)
	}
	return deskPage{Title: "It is stopped", Text: "No more e-mail comes. Your address is deleted here."}, d.Manager.Engine.Drop(of, nil)
}

// A deskPage is a page for visitors.
type deskPage struct {
	Title, Text string
	Query       string // of the form
	Do, Button  string // of a link
}

var deskTemplate = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><meta name="viewport" ` +
	`content="width=device-width, initial-scale=1"><title>{{.Title}}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:32rem;margin:2rem auto;padding:0 ` +
	`1rem}input,button{font:inherit;padding:.4rem .6rem}</style></head>
<body><main><h1>{{.Title}}</h1><p>{{.Text}}</p>
{{if .Query}}<form method="post" action="/notify-me"><input type="hidden" name="query" value="{{.Query}}"><label>Your address
 <input type="email" name="email" required autocomplete="email"></label> <button>Tell me</button></form>{{end}}
{{if .Do}}<form method="post"><input type="hidden" name="do" value="{{.Do}}"><button>{{.Button}}</button></form>{{end}}
</main></body></html>
`))
