package service

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// A text goes to any URL that takes a POST. After # there may be a template of the body, in which {title}, {text},
// {link} and {state} are replaced. A template that is JSON is sent as JSON.
var (
	_ = known(&Kind{Name: "text", Title: "The receiver", Form: "text+https://HOST/PATH", most: 4000, check: anyURL,
		request: func(u *url.URL, m *Message) request { return templated(u, m, plain(m), "text/plain; charset=utf-8") }})
	_ = known(&Kind{Name: "markdown", Title: "The receiver", Form: "markdown+https://HOST/PATH", most: 4000, check: anyURL,
		request: func(u *url.URL, m *Message) request {
			text := "**" + escaped(m.Title) + "**"
			if m.Text != "" {
				text += "\n\n" + lines(escaped(m.Text))
			}
			if m.Link != "" {
				text += "\n\n[Open](" + m.Link + ")"
			}
			return templated(u, m, text, "text/markdown; charset=utf-8")
		}})
)

func anyURL(*url.URL) error { return nil }

func templated(u *url.URL, m *Message, usual, mediaType string) request {
	at := *u
	at.Fragment, at.RawFragment, at.User = "", "", nil
	q := request{url: at.String(), text: usual, header: bearer(u)}
	if q.header == nil {
		q.header = http.Header{}
	}
	if form := u.Fragment; form != "" {
		is := json.Valid([]byte(form))
		put := func(s string) string {
			if b, err := json.Marshal(s); is && err == nil {
				return string(b[1 : len(b)-1])
			}
			return s
		}
		if m.Text == "" && !strings.Contains(form, "{title}") { // which would say nothing
			m.Text = m.Title
		}
		q.text = strings.NewReplacer("{title}", put(m.Title), "{text}", put(m.Text), "{link}", put(m.Link), "{state}",
			put(string(m.State))).Replace(form)
		if is {
			mediaType = "application/json"
		}
	}
	q.header.Set("Content-Type", mediaType)
	return q
}

// lines keeps the lines of a text apart in Markdown.
func lines(s string) string { return strings.ReplaceAll(s, "\n", "  \n") }

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
