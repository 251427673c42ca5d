package web

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

//go:embed page
var pageFiles embed.FS

var statusTemplate = template.Must(template.New("status.html").Funcs(template.FuncMap{
	"utc":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"short": func(t time.Time) string { return t.UTC().Format("15:04:05") },
}).ParseFS(pageFiles, "page/status.html"))

// A statusData is what the status page shows. It is of one request, made when
// asked for; a small script adds changes as they come, and nothing needs it.
type statusData struct {
	Version   string
	Now       time.Time
	Locked    bool // the reader has no token: nothing is shown
	Endpoints []statusEndpoint
	Changes   []statusChange
	Head      string // where the script goes on following
}

type statusEndpoint struct {
	Endpoint registry.Endpoint
	State    scheduler.LoopState
	Up       bool
	Slots    []scheduler.Slot
}

type statusChange struct {
	registry.Change
	Name           string
	Added, Removed int
}

const (
	shownSlots   = 5
	shownChanges = 30
)

func statusPage(c *call) error {
	d := statusData{Version: c.Version, Now: c.Now()}
	if err := c.admit(route{need: registry.RoleRead}); err != nil {
		d.Locked = true
	} else if err := c.fill(&d); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := statusTemplate.Execute(&b, d); err != nil {
		return err
	}
	return c.bytes(http.StatusOK, "text/html; charset=utf-8", b.Bytes())
}

func (c *call) fill(d *statusData) error {
	all, err := c.Registry.Endpoints()
	if err != nil {
		return err
	}
	for _, e := range all {
		s := statusEndpoint{Endpoint: e}
		if s.State, err = c.Daemon.State(e.Name); err == nil {
			s.Up = true
		} else if !missing(err) {
			return err
		}
		if s.Slots, err = c.History.Slots(e.Name, shownSlots); err != nil && !missing(err) {
			return err
		}
		d.Endpoints = append(d.Endpoints, s)
	}
	return c.fillChanges(d)
}

// fillChanges shows the newest changes of all queries, newest first.
func (c *call) fillChanges(d *statusData) error {
	head, err := c.History.Head()
	if err != nil {
		return err
	}
	d.Head = head.String()
	from := head
	from.Seq -= min(from.Seq, shownChanges)
	changes, err := c.History.All(from, shownChanges)
	if _, told := asProblem(err); err != nil && !told {
		return err
	}
	for _, ch := range slices.Backward(changes) {
		v := statusChange{Change: ch, Name: ch.Query}
		if it, err := c.Queries.Item(ch.Query); err == nil && it.Query.NameFor(c.caller.Name) != "" {
			v.Name = it.Query.NameFor(c.caller.Name)
		}
		if ch.Delta != nil {
			v.Added, v.Removed = len(ch.Delta.Added), len(ch.Delta.Removed)
		}
		d.Changes = append(d.Changes, v)
	}
	return nil
}

// asset serves a file of the page. Its content changes with the version only,
// but it is small: asking again each time is simplest.
func asset(name, typ string) func(*call) error {
	return func(c *call) error {
		b, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			return err
		}
		c.w.Header().Set("Cache-Control", "no-cache")
		return c.bytes(http.StatusOK, typ, b)
	}
}
