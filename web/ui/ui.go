package ui

import (
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// Config is what the pages are made of: what the API is, and a little more.
type Config struct {
	web.Config
	// Index is what lists of queries are ordered by.
	Index Index
	// Follow returns a channel that delivers after changes were committed, and
	// what ends it. Without it live pages look by themselves, once a second.
	Follow func() (awake <-chan struct{}, stop func())
	// Streams bounds how many live streams are open at a time, default 64.
	Streams int
	Managing
}

const (
	usualStreams = 64
	lookEvery    = time.Second    // how often a live page looks for slots that changed nothing
	mostTries    = 4              // at a time
	mostSessions = 1000           // signed-in browsers
	mostOfOne    = 50             // with the same token
	idleSession  = 12 * time.Hour // without a request
	longSession  = 7 * 24 * time.Hour
	slowestWrite = 60 * time.Second // how long a browser may take to take a page
	heartbeat    = 15 * time.Second // between two signs of life of a stream
	slowestEvent = 10 * time.Second
)

// A Server serves the pages. It is a web.Pages.
type Server struct {
	Config
	mux       *http.ServeMux
	sections  map[string]bool // the places of the rail that exist
	assets    assets
	looks     map[string]*look // parsed templates by page
	sessions  *sessions
	catalogue *catalogue
	profiles  *profileIndex // nil where there are none
	trends    trends
	counted   counted
	streams   chan struct{}
	shares    shares
	builds    chan struct{} // pages that are being built
	tries     chan struct{} // trial executions
	trials    trials
	joins     chan struct{} // comparisons of versions that lie far apart
	done      chan struct{}
}

var _ web.Pages = (*Server)(nil)

// New builds the pages.
func New(c Config) (*Server, error) {
	if c.Registry == nil || c.Queries == nil || c.History == nil || c.Daemon == nil || c.Store == nil || c.Gate == nil || c.Index == nil {
		return nil, errors.New("ui: a part of the configuration is missing")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Rechecked == nil {
		c.Rechecked = func() <-chan struct{} { return nil }
	}
	if c.Documents == nil {
		c.Documents = web.Unshared{}
	}
	if c.Streams <= 0 {
		c.Streams = usualStreams
	}
	if c.Limits.Body <= 0 {
		c.Limits.Body = 1 << 20
	}
	if c.Limits.Recheck <= 0 {
		c.Limits.Recheck = 25 * time.Second
	}
	s := &Server{Config: c, mux: http.NewServeMux(), sections: map[string]bool{}, looks: map[string]*look{},
		sessions: newSessions(c.Now, c.PublicURL), catalogue: newCatalogue(c.Index, c.Now), streams: make(chan struct{}, c.Streams), shares: shares{most: max(1, c.Streams/2), n: map[string]int{}}, builds: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), tries: make(chan struct{}, mostTries), joins: make(chan struct{}, mostJoins), done: make(chan struct{})}
	if s.Profiles != nil {
		s.profiles = &profileIndex{profiles: s.Profiles, now: s.Now}
	}
	var err error
	if s.assets, err = loadAssets(); err != nil {
		return nil, err
	}
	return s, s.serveAll()
}

// Close ends the live streams; it is called once, when the server stops.
func (s *Server) Close() { close(s.done) }

// A page is one kind of page.
type page struct {
	path    string // pattern of the router, without a method
	look    string // its template, templates/{look}.html
	section string // its place in the rail, "" for none
	need    registry.Role
	build   func(*visit) (content, error)
	live    bool // has a stream of its own
}

// Content is what a page shows this time.
type content struct {
	Title string
	Data  any
	Live  []part // what of it is kept up to date
	Feed  *feed  // a list that grows at its top
}

// A part of a page lives on: its template renders one element, which bears the id.
type part struct {
	ID, Template string
	Data         any
}

// An action is a form's POST. It answers by itself, mostly with v.back or v.to.
type action struct {
	path string
	need registry.Role // "": open to everybody
	run  func(*visit) error
}

// pages are all pages, and actions all forms: what is not here is not there.
func (s *Server) pages() []page {
	const read = registry.RoleRead
	return []page{
		{path: "/{$}", look: "overview", section: "overview", need: read, build: overview, live: true},
		{path: "/queries", look: "queries", section: "queries", need: read, build: queries, live: true},
		{path: "/queries/{id}", look: "query", section: "queries", need: read, build: query, live: true},
		{path: "/queries/{id}/changes/{seq}", look: "change", section: "queries", need: read, build: changePageOf},
		{path: "/queries/{id}/release", look: "release", section: "queries", need: registry.RoleApp, build: release},
		{path: "/queries/{id}/settings", look: "query-settings", section: "queries", need: registry.RoleApp, build: editQuery},
	}
}

func (s *Server) actions() []action {
	return []action{
		{path: "/signin", run: signIn},
		{path: "/signout", run: signOut},
		{path: "/theme", run: setTheme},
		{path: "/queries", need: registry.RoleApp, run: actOnQueries},
		{path: "/queries/{id}", need: registry.RoleApp, run: actOnQuery},
		{path: "/queries/{id}/release", need: registry.RoleApp, run: doRelease},
		{path: "/queries/{id}/settings", need: registry.RoleApp, run: saveQuery},
	}
}

// texts are what is served as it is, beside the pages.
func (s *Server) texts() []action {
	const read = registry.RoleRead
	return []action{
		{path: "/queries/{id}/text", need: read, run: queryText},
		{path: "/queries/{id}/result", need: read, run: resultCell},
		{path: "/queries/{id}/difference", need: read, run: differenceCell},
		{path: "/queries/{id}/changes/{seq}/value", need: read, run: changeCell},
	}
}

func (s *Server) serveAll() error {
	for _, p := range append(s.pages(), s.managing()...) {
		l, err := newLook(p.look, s.assets)
		if err != nil {
			return err
		}
		s.looks[p.look] = l
		s.sections[p.section] = true
		s.mux.Handle("GET "+p.path, s.show(p))
		if p.live {
			s.mux.Handle("GET "+strings.TrimSuffix("/ui/events"+p.path, "/{$}"), s.stream(p))
		}
	}
	for _, a := range append(s.actions(), s.managingActions()...) {
		s.mux.Handle("POST "+a.path, s.act(a))
	}
	for _, a := range s.texts() {
		s.mux.Handle("GET "+a.path, s.act(a))
	}
	for _, name := range []string{"error", "signin"} {
		l, err := newLook(name, s.assets)
		if err != nil {
			return err
		}
		s.looks[name] = l
	}
	s.mux.HandleFunc("GET /signin", s.signInPage)
	s.mux.Handle("GET /ui/static/{hash}/{name}", s.assets)
	s.mux.HandleFunc("/", s.nothing)
	return nil
}
