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

// Config holds what the pages need: the configuration of the API and a little more.
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
	templates map[string]*pageTemplate // parsed templates by page
	sessions  *sessions
	catalogue *catalogue
	profiles  *profileIndex // nil where there are none
	trends    trends
	counted   cached[counted]
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

// Close ends the live streams; it is called once, when the server stops.
func (s *Server) Close() { close(s.done) }

// Managing is what the pages about the server itself need besides the API's
// parts; whatever is left out has no page, or no place on it.
type Managing struct {
	// Settings are the effective configuration, secrets masked.
	Settings func() ([]Setting, error)
	// Storage tells how large the store is.
	Storage func() (Storage, error)
	// Probe asks an endpoint that is not known yet one small question. An error
	// that can be mended is a *registry.Problem.
	Probe func(ctx context.Context, e registry.Endpoint) (time.Duration, error)
	// Started is when the process began.
	Started time.Time
}

// A Setting is one value of the configuration and where it comes from.
type Setting struct {
	Key, Value string
	From       string // "flag", "environment", "file", "secret file", "default" or, of an endpoint, "changed here by …"
}

// Storage is the size of the store in bytes; Free is the part of Size that
// waits to be used again.
type Storage struct{ Size, Free int64 }
