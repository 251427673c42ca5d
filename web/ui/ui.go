package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// Config holds the dependencies of the pages: the configuration of the API and some
// more.
type Config struct {
	web.Config
	// Index provides the data by which lists of queries are sorted.
	Index Index
	// Follow returns a channel that receives a value after each commit of changes, and
	// a function that ends it. If it is nil, live pages poll once a second.
	Follow func() (awake <-chan struct{}, stop func())
	// Streams limits the number of open live streams; default 64.
	Streams int
	Managing
}

const (
	usualStreams = 64
	lookEvery    = time.Second    // how often a live page checks for slots without changes
	mostTries    = 4              // concurrent trial executions
	mostSessions = 1000           // signed-in browsers
	mostOfOne    = 50             // sessions with the same token
	idleSession  = 12 * time.Hour // a session ends after this time without a request
	longSession  = 7 * 24 * time.Hour
	slowestWrite = 60 * time.Second // how long a browser may take to read a page
	heartbeat    = 15 * time.Second // interval between keep-alive messages of a stream
	slowestEvent = 10 * time.Second
)

// A Server serves the pages. It implements web.Pages.
type Server struct {
	Config
	mux       *http.ServeMux
	sections  map[string]bool // the existing navigation sections
	assets    assets
	templates map[string]*pageTemplate // parsed templates by page
	sessions  *sessions
	catalogue *catalogue
	profiles  *profileIndex // nil if the server has no profiles
	trends    trends
	counted   cached[counted]
	streams   chan struct{}
	shares    shares
	builds    chan struct{} // limits concurrent page builds
	tries     chan struct{} // limits concurrent trial executions
	trials    trials
	joins     chan struct{} // limits concurrent comparisons of versions that are far apart
	done      chan struct{}
}

var _ web.Pages = (*Server)(nil)

// New returns the server of the pages.
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
	if c.Rechecks == nil {
		c.Rechecks = web.NoRechecks{}
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
	s := &Server{Config: c, mux: http.NewServeMux(), sections: map[string]bool{}, templates: map[string]*pageTemplate{},
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

// Close ends the live streams. Call it once, when the server stops.
func (s *Server) Close() { close(s.done) }

// Managing holds the dependencies of the pages about the server itself. A page or
// section without its dependency is left out.
type Managing struct {
	// Settings returns the effective configuration with secrets masked.
	Settings func() ([]Setting, error)
	// Storage returns the size of the store.
	Storage func() (Storage, error)
	// Probe sends a small query to an endpoint that is not yet registered. An error
	// that the user can correct is a *registry.Problem.
	Probe func(ctx context.Context, e registry.Endpoint) (time.Duration, error)
	// Started is when the process began.
	Started time.Time
}

// A Setting is a configuration value and its source.
type Setting struct {
	Key, Value string
	From       string // "flag", "environment", "file", "secret file", "default" or, for an endpoint, "changed here by …"
}

// Storage is the size of the store in bytes; Free is the part of Size that is
// available for reuse.
type Storage struct{ Size, Free int64 }
