// Package service knows the services by which people get messages, such as ntfy and Slack.
//
// Each kind of service is one file with one variable in the table: how its addresses look, what
// request sends a message, and what its answers mean. Package deliver makes the requests, and decides
// when a message is sent again. Package alert sends alerts with it, and package people changes of
// results.
//
// # Adding a service
//
// Write one file with a variable known(&Kind{…}), such as gotify.go. Its tests are a row of the tables in
// service_test.go, which plays what the service answers. It needs a section of web/docs/receivers.md,
// and web/docs/openapi.yaml names it twice. Commands, forms and the API take its addresses without
// further changes.
//
// An address is the service's own web address if that says enough, such as an incoming webhook of
// Slack. Any other begins with the name of the kind, such as ntfy+https://ntfy.example.org/topic.
package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// A Message is what people are told. Its texts are lines without control characters.
type Message struct {
	ID    string // the same for all attempts
	Title string
	Text  string
	Link  string              // page about it, "" for none
	State registry.AlertState // firing or resolved, "" of a message that is not about alerts
	At    time.Time
	From  string // web address of the server
	// Key returns the key of the server that signs messages to browsers; nil: none are sent.
	Key func() (string, error)

	now time.Time // of the attempt
}

// A Kind is a kind of services.
type Kind struct {
	Name  string
	Title string // for people
	Form  string // of addresses, for people

	// host is that of services whose addresses need none.
	host string
	// own reports whether an http address is one of the service; nil: none is.
	own func(u *url.URL) bool
	// check returns what an address lacks, and removes what is not needed. Its scheme is http or https.
	check func(u *url.URL) error
	// request makes the request that sends a message.
	request func(u *url.URL, m *Message) request
	// reply interprets an answer that is not what package deliver makes of it; nil: none is.
	reply func(r *deliver.Reply)
	// most is the largest number of characters of a text.
	most int
	// text: the service takes no message without a text.
	text bool
}

// A request sends a message.
type request struct {
	method string // "" for POST
	url    string
	header http.Header
	json   any    // the body
	text   string // the body, if it is not JSON
	err    error  // why there is none
}

var kinds = map[string]*Kind{}

func known(k *Kind) *Kind {
	kinds[k.Name] = k
	return k
}

// Kinds returns the kinds, ordered by their names.
func Kinds() (list []*Kind) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		list = append(list, kinds[name])
	}
	return list
}

// Forms lists the forms of addresses, for the texts of errors.
func Forms() string {
	var forms []string
	for _, k := range Kinds() {
		forms = append(forms, k.Form)
	}
	return strings.Join(forms, ", ")
}

// mostAddress is the largest length of an address in bytes.
const mostAddress = 4096

// Find returns the kind of an address and its complete form. kind is that which the address is said to
// have, or "". Its errors contain nothing of the address.
func Find(kind, address string) (*Kind, string, error) {
	tooLong := fmt.Errorf("an address has at most %d bytes, also when it is escaped, and no blanks or control characters", mostAddress)
	if len(address) > mostAddress || strings.ContainsFunc(address, func(c rune) bool { return c <= ' ' || c == 0x7f || c == 0xfffd }) {
		return nil, "", tooLong
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, "", errors.New("it is not a URL")
	}
	name, transport, _ := strings.Cut(u.Scheme, "+")
	k := kinds[name]
	if plain := name == "http" || name == "https"; plain && kind != "" {
		k, transport = kinds[kind], name
	} else if plain {
		transport = name
		for _, x := range Kinds() {
			if x.own != nil && x.own(u) {
				k = x
			}
		}
	}
	if k == nil || kind != "" && k.Name != kind {
		return nil, "", fmt.Errorf("no service has such addresses; those that are known look like %s, and e-mail like "+
			"mailto:you@example.org", Forms())
	}
	if u.Scheme = cmp.Or(transport, "https"); u.Scheme != "https" && u.Scheme != "http" {
		return nil, "", fmt.Errorf("its beginning must be %s+https:// or %s+http://", k.Name, k.Name)
	}
	if u.Host == "" {
		u.Host = k.host
	}
	if u.Hostname() == "" || u.Opaque != "" {
		return nil, "", fmt.Errorf("it has no host; it looks like %s", k.Form)
	}
	if err := k.check(u); err != nil {
		return nil, "", fmt.Errorf("%w; it looks like %s", err, k.Form)
	}
	u.Scheme = k.Name + "+" + u.Scheme
	complete := u.String()
	if len(complete) > mostAddress {
		return nil, "", tooLong
	}
	return k, complete, nil
}

// Base returns the address whose host is called, without secrets, for a deliver.Guard. The address is a
// complete one.
func Base(address string) string {
	u, err := parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + "/"
}

// parse returns a complete address with the scheme of its transport.
func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of the service cannot be read")
	}
	_, u.Scheme, _ = strings.Cut(u.Scheme, "+")
	return u, nil
}

// mostAnswer is how many bytes of an answer are read, shortText the number of characters of a text that
// is sent again after it was too long.
const mostAnswer, shortText = 4 << 10, 200

// Send returns a function that sends a message to an address that Find has completed.
func Send(kind, address string, m Message) (func(context.Context, *deliver.Client) deliver.Reply, error) {
	k := kinds[kind]
	u, err := parse(address)
	if k == nil || err != nil {
		return nil, fmt.Errorf("%w: its kind of service is unknown; run the version that stored it, or drop it", deliver.ErrUnsupported)
	}
	return func(ctx context.Context, c *deliver.Client) deliver.Reply {
		r := k.send(ctx, c, u, m, k.most)
		if r.Err == nil && r.Status == http.StatusRequestEntityTooLarge {
			r = k.send(ctx, c, u, m, shortText)
		}
		return r
	}, nil
}

// send sends a message whose text has at most so many characters.
func (k *Kind) send(ctx context.Context, c *deliver.Client, u *url.URL, m Message, most int) deliver.Reply {
	m.Title, m.Text, m.now = Cut(m.Title, mostTitle), Cut(strings.TrimSpace(m.Text), most), c.Now()
	if k.text && m.Text == "" {
		m.Title, m.Text = "", m.Title
	}
	q := k.request(u, &m)
	if q.err != nil {
		return deliver.Reply{Err: q.err}
	}
	body, header := []byte(q.text), http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	if q.json != nil {
		var err error
		if body, err = json.Marshal(q.json); err != nil {
			return deliver.Reply{Err: errors.New("the message cannot be written as JSON")}
		}
		header.Set("Content-Type", "application/json")
	}
	maps.Copy(header, q.header)
	r := deliver.HTTP(cmp.Or(q.method, http.MethodPost), q.url, header, body, mostAnswer)(ctx, c)
	switch {
	case r.Err != nil:
		return r
	case k.reply != nil:
		k.reply(&r)
	}
	if !r.OK() && r.Said == "" {
		r.Said = fmt.Sprintf("%s answered %d%s", k.Title, r.Status, map[int]string{
			http.StatusUnauthorized: ": the secret in the address is wrong", http.StatusForbidden: ": the secret in the address is " +
				"wrong, or may not do this",
			http.StatusNotFound: ": it does not know the address", http.StatusTooManyRequests: ": it was sent too much",
			http.StatusGone: ": it wants no more messages",
		}[r.Status])
	}
	return r
}

// gone says that a receiver exists no more.
func gone(r *deliver.Reply, said string) { r.Status, r.Said = http.StatusGone, said }

func says(r *deliver.Reply, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(string(r.Body), text) })
}

// waitIn reads from a JSON answer for how long the service wants no request.
func waitIn(r *deliver.Reply, unit time.Duration, path ...string) {
	var v any
	if r.Status != http.StatusTooManyRequests || json.Unmarshal(r.Body, &v) != nil {
		return
	}
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	if n, ok := v.(float64); ok && n > 0 && n < 1e9 {
		r.Wait = time.Duration(n * float64(unit))
	}
}

const mostTitle = 200

// Cut returns at most so many characters of a text.
func Cut(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return strings.TrimSpace(s[:i]) + "…"
		}
	}
	return s
}

// silent breaks names after @, so that a value in the data calls no one.
func silent(s string) string { return strings.ReplaceAll(s, "@", "@\u200b") }

// escaped puts a backslash before what Markdown interprets.
func escaped(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `_`, `\_`, `~`, `\~`, "`", "\\`", `|`, `\|`, `[`, `\[`, `]`, `\]`, `<`, `\<`,
		`>`, `\>`, `#`, `\#`).Replace(s)
}

func tagged(m *Message, line string) string {
	text := "<b>" + html.EscapeString(m.Title) + "</b>"
	if m.Text != "" {
		text += line + strings.ReplaceAll(html.EscapeString(m.Text), "\n", line)
	}
	if m.Link != "" {
		text += line + `<a href="` + html.EscapeString(m.Link) + `">Open</a>`
	}
	return text
}

func plain(m *Message) string {
	return strings.Join(slices.DeleteFunc([]string{m.Title, m.Text, m.Link}, func(s string) bool { return s == "" }), "\n")
}

// needs returns an error if something that an address needs is missing.
func needs(what string, there bool) error {
	if there {
		return nil
	}
	return errors.New("its " + what + " is missing")
}
