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
	"strconv"
	"strings"
	"sync"
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

const (
	// askedFor is how long a visitor has to confirm an address.
	askedFor = 24 * time.Hour
	// stoppedFor is how long an address is not asked again about a query after its owner has stopped it, and refusedFor
	// after a mail server has refused it, which may be wrong.
	stoppedFor, refusedFor = 180 * 24 * time.Hour, 24 * time.Hour
	// mostAsked bounds the addresses that are asked, and those whose owners have stopped it. The limit of all requests admits
	// fewer a day, at three nodes.
	mostAsked = 30_000
)

// A Desk serves the form for visitors, and the links in their e-mails.
type Desk struct {
	Manager *Manager
	Most    int // addresses with subscriptions; 0 serves no form

	clients, addresses *registry.Rates
	all                *rate.Limiter
	mu                 sync.Mutex // from a count until what it admits is stored
}

// NewDesk returns a desk for at most so many subscriptions of visitors.
func NewDesk(m *Manager, most int) *Desk {
	return &Desk{Manager: m, Most: most, all: rate.NewLimiter(rate.Every(allPause), 100),
		clients: registry.NewRates(rate.Every(clientPause), 5), addresses: registry.NewRates(rate.Every(addressPause), 3)}
}

// The pauses between requests of all clients together, of one client, and about one address.
const allPause, clientPause, addressPause = 10 * time.Second, 10 * time.Minute, 8 * time.Hour

// admit checks how often requests come. One that is refused costs the client only, so that no client uses up what all
// have, and no limit of all uses up what an address has.
func (d *Desk) admit(client, address string, now time.Time) error {
	wait := time.Duration(0)
	switch {
	case !d.clients.Allow(client, now):
		wait = clientPause
	case !d.all.AllowN(now, 1):
		wait = allPause
	case !d.addresses.Allow(owner(address), now): // it does not show that others have asked about the address
		wait = clientPause
	default:
		return nil
	}
	return &registry.Problem{Kind: registry.KindRate, Detail: "there were several requests just now: try again later", RetryAfter: wait}
}

// count returns how many addresses get e-mail, how many are asked, and how many are not asked again as their owners have
// stopped it. The caller holds mu.
func (d *Desk) count() (told, asked, stopped int, err error) {
	for s, err := range registry.EachSubscription(d.Manager.Engine.Subscriptions, Prefix) {
		switch {
		case err != nil:
			return 0, 0, 0, err
		case !strings.HasPrefix(s.ID, Prefix):
			return told, asked, stopped, nil
		case s.Caller != Visitors:
		case isStopped(&s):
			if s.ExpiresAt != nil && s.ExpiresAt.Sub(s.CreatedAt) > askedFor+refusedFor {
				stopped++
			}
		case s.State == registry.Pending:
			asked++
		default:
			told++
		}
	}
	return told, asked, stopped, nil
}

// isStopped reports whether a subscription only says that its address is not asked again. It does not have the address.
func isStopped(s *registry.Subscription) bool { return s.To != nil && s.To.Address == "" }

// stopUntil makes a subscription of it that says that its address is not asked again before a time.
func stopUntil(s *registry.Subscription, until time.Time) {
	*s = registry.Subscription{ID: s.ID, Way: s.Way, Caller: s.Caller, Query: s.Query, Title: s.Title, Callback: "mailto:…",
		To: &registry.Receiver{Kind: email}, State: registry.Pending, CreatedAt: s.CreatedAt, ExpiresAt: &until, Cursor: s.Cursor,
		Secrets: s.Secrets}
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
			if s.State == registry.Pending && (s.ExpiresAt == nil || !now.Before(*s.ExpiresAt)) {
				s.State = registry.Ended
			}
		}}, nil
	case deliver.BackingOff(s, now):
		return deliver.Step{Hold: *s.NextTry}, nil
	case s.Intent == nil:
		return deliver.Step{At: *s.ExpiresAt}, nil
	}
	q, err := t.opts.Query(s.Query)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return deliver.Step{}, err
	}
	link, asked := t.visitorLink(s), s.Intent.Secret
	if err != nil || !(registry.Caller{}).MayRead(&q) { // since it was asked for
		return deliver.Step{Edit: func(s *registry.Subscription) {
			if s.State == registry.Pending && s.Intent != nil && s.Intent.Secret == asked {
				s.State = registry.Ended
			}
		}}, nil
	}
	send := t.opts.Mail.Call(service.Letter{ID: strings.ToLower(asked), At: s.Intent.At, To: s.To.Address,
		Subject: "Please confirm: " + called(s), Stop: link, Asked: true,
		Text: "Somebody, probably you, asked for the changes of \"" + called(s) + "\" at " + t.opts.PublicURL +
			" by e-mail.\r\n\r\nIf that is right, confirm it here:\r\n" + link + "\r\n\r\nIf not, do nothing: then no changes are " +
			"sent. If you want no such question again, the same page has a button for it.\r\n"}, t.opts.Now)
	return deliver.Step{Call: &deliver.Call{Send: send, Since: s.Intent.At, Asks: true, Done: func(s *registry.Subscription,
		r deliver.Reply) {
		switch {
		case s.State != registry.Pending:
		case s.Intent == nil || s.Intent.Secret != asked: // the visitor has asked again meanwhile
		case r.Refused(): // there is no such address
			stopUntil(s, r.At.Add(refusedFor).UTC())
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
	if err := d.admit(client, key, now); err != nil {
		return err
	}
	st, _, err := m.Target.opts.Log.Current(q.ID, false)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if told, asked, _, err := d.count(); err != nil {
		return err
	} else if told >= d.Most || asked >= mostAsked {
		return full()
	}
	of, title, expires := id(Visitors, q.ID, key), m.Target.title(&q, Visitors), now.Add(askedFor)
	_, err = m.Engine.Edit(of, func(s *registry.Subscription, found bool) error {
		asks := &registry.Intent{Mode: "confirm", Secret: rand.Text(), At: now}
		switch {
		case found && isStopped(s) && s.ExpiresAt.After(now):
			return nil
		case found && s.State == registry.Pending && s.Intent == nil && !isStopped(s): // the question may be lost
			s.Intent, s.ExpiresAt, s.Title = asks, &expires, title
			return nil
		case found && s.State != registry.Disabled && !isStopped(s):
			return nil // it is being asked, or gets e-mail already
		}
		*s = registry.Subscription{ID: of, Way: registry.People, Caller: Visitors, Query: q.ID, Title: title, To: &registry.Receiver{Kind: email,
			Address: address, Quiet: registry.Quiet{Digest: visitorDigest}},
			Callback: "mailto:" + masked(address), State: registry.Pending, CreatedAt: now, ExpiresAt: &expires, Cursor: st.Position,
			Secrets: []registry.Secret{{Key: rand.Text()}}, Intent: asks}
		return nil
	})
	return err
}

func full() error {
	return &registry.Problem{Kind: registry.KindLimit, Detail: "as many people as may get e-mail are told already"}
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
	if err != nil {
		return s, oldLink()
	}
	if s.Caller != Visitors || len(s.Secrets) == 0 || subtle.ConstantTimeCompare([]byte(s.Secrets[0].Key), []byte(secret)) == 0 {
		// It takes as long as for an address that is not known, for which a node of a cluster asks the others.
		_, _ = d.Manager.Engine.Subscription(Prefix + rand.Text())
		return s, oldLink()
	}
	return s, nil
}

func oldLink() error {
	return &registry.Problem{Kind: registry.KindNotFound, Detail: "this link is not valid any more: use the link of the newest e-mail"}
}

// confirm begins to tell a visitor what changes.
func (d *Desk) confirm(of string) error {
	s, err := d.Manager.Engine.Subscription(of)
	if err != nil {
		return err
	}
	if s.State != registry.Pending { // it is confirmed already
		return nil
	}
	if _, err := d.query(s.Query); err != nil {
		return err
	}
	st, _, err := d.Manager.Target.opts.Log.Current(s.Query, false)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	told, _, _, err := d.count()
	if err != nil {
		return err
	}
	_, err = d.Manager.Engine.Edit(of, func(s *registry.Subscription, found bool) error {
		switch {
		case !found || isStopped(s):
			return oldLink()
		case s.State != registry.Pending: // it is confirmed already
		case told >= d.Most:
			return full()
		default:
			s.State, s.Intent, s.ExpiresAt, s.Cursor = registry.Active, nil, nil, st.Position
		}
		return nil
	})
	return err
}

// stop ends a subscription, and remembers for a while that its address is not asked again, unless it remembers too many.
func (d *Desk) stop(of string) (remembered bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _, stopped, err := d.count()
	if err != nil {
		return false, err
	}
	until, remembered := d.Manager.Target.opts.Now().UTC().Add(stoppedFor), stopped < mostAsked
	return remembered, d.Manager.Engine.Drop(of, func(s *registry.Subscription) {
		if remembered {
			stopUntil(s, until)
		}
	})
}

// ServeHTTP serves the form (GET with ?query=, POST), and the links in e-mails.
func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
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
	status := http.StatusOK
	if err != nil {
		status, v = d.failed(h, r, err)
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
		"and you are told what changes. If none comes, you may have stopped these e-mails: the link in the last one allows them again."}, err
}

// failed returns the page of an error: the form, if it can be sent again.
func (d *Desk) failed(h http.Header, r *http.Request, err error) (int, deskPage) {
	v, status := deskPage{Title: "That did not work", Text: "Try again later."}, http.StatusServiceUnavailable
	var told *registry.Problem
	if !errors.As(err, &told) {
		return status, v
	}
	if told.Detail != "" {
		v.Text = strings.ToUpper(told.Detail[:1]) + told.Detail[1:] + "."
	}
	switch told.Kind {
	case registry.KindNotFound:
		return http.StatusNotFound, v
	case registry.KindMethodNotAllowed:
		h.Set("Allow", "GET, HEAD, POST")
		return http.StatusMethodNotAllowed, v
	case registry.KindRate:
		status = http.StatusTooManyRequests
		h.Set("Retry-After", strconv.Itoa(int(told.RetryAfter.Seconds())))
	case registry.KindBadSetting:
		status = http.StatusUnprocessableEntity
	}
	if form, err := d.form(r.PostForm); err == nil {
		form.Problem, form.Email = v.Text, r.PostForm.Get("email")
		return status, form
	}
	return status, v
}

// linked serves the link of an e-mail: a page with buttons, as programs follow links too, and its buttons.
// Mail programs post List-Unsubscribe=One-Click to the same address.
func (d *Desk) linked(r *http.Request, of, secret string) (deskPage, error) {
	s, err := d.find(of, secret)
	if err != nil {
		return deskPage{}, err
	}
	do, about := "show", "“"+called(&s)+"” at "+d.Manager.Target.opts.PublicURL
	if r.Method == http.MethodPost {
		do = "stop"
		if r.ParseForm() == nil && r.PostForm.Has("do") {
			do = r.PostForm.Get("do")
		}
	}
	switch {
	case isStopped(&s) && do == "allow":
		if err := d.Manager.Engine.Drop(of, nil); err != nil {
			return deskPage{}, err
		}
		return d.form(url.Values{"query": {s.Query}})
	case isStopped(&s):
		return deskPage{Title: "These e-mails are stopped", Text: "Your address is not asked about " + about + " before " +
			s.ExpiresAt.Format("2 January 2006") + ".", Do: "allow", Button: "Let me ask for them again"}, nil
	case do == "confirm":
		return deskPage{Title: "Thank you", Text: "You are told what changes in " + about + ". Each e-mail has a link that stops it."},
			d.confirm(of)
	case do != "show":
		remembered, err := d.stop(of)
		also := ""
		if remembered {
			also = ", also if somebody asks for it in the next half year"
		}
		return deskPage{Title: "It is stopped", Text: "No more e-mail comes about " + about + also + ". Your address is deleted here."}, err
	case s.State == registry.Pending:
		_, err := d.query(s.Query)
		return deskPage{Title: "Do you want these e-mails?", Text: "You are told what changes in " + about + ", until you stop it.",
			Do: "confirm", Button: "Yes, tell me", No: "No, and do not ask me again"}, err
	}
	return deskPage{Title: "Stop these e-mails?", Text: "Nothing more is sent to you about " + about + ".", Do: "stop",
		Button: "Stop them"}, nil
}

// A deskPage is a page for visitors.
type deskPage struct {
	Title, Text string
	// Of the form: the query, what was wrong, and the address that was sent.
	Query, Problem, Email string
	// Of a link: what its button does and says, and what the one that stops it says.
	Do, Button, No string
}

var deskTemplate = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><meta name="viewport" ` +
	`content="width=device-width, initial-scale=1"><title>{{.Title}}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:32rem;margin:2rem auto;padding:0 ` +
	`1rem}input,button{font:inherit;padding:.4rem .6rem}</style></head>
<body><main><h1>{{.Title}}</h1><p>{{.Text}}</p>
{{if .Query}}<form method="post" action="/notify-me"><input type="hidden" name="query" value="{{.Query}}"><label>Your address
 <input type="email" name="email" required autocomplete="email"{{if .Problem}} value="{{.Email}}" aria-describedby="wrong"{{end}}></label>
 <button>Tell me</button>{{with .Problem}}<p id="wrong" role="alert">{{.}}</p>{{end}}</form>{{end}}
{{if .Do}}<form method="post"><button name="do" value="{{.Do}}">{{.Button}}</button>{{with .No}}
 <button name="do" value="stop">{{.}}</button>{{end}}</form>{{end}}
</main></body></html>
`))
