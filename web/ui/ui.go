// Package ui serves the web pages: what runs, when and why, and forms for actions.
//
// Every page works without a script: the server renders it, lists are filtered and
// paged by GET, and actions are POST forms that answer with a redirect. The only
// script keeps relative times current and applies the page's live stream, which
// consists of fragments rendered by the same templates.
//
// A page is a function that gathers the data its template shows (see page). It uses
// the same interfaces as the API and never calls the API itself.
package ui

import (
	"context"
	"html/template"
	"net/http"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// Config holds the dependencies of the pages: the configuration of the API and some
// more.
type Config struct {
	web.Config
	// Follow returns a channel that receives a value after each commit of changes, and
	// a function that ends it.
	Follow func() (awake <-chan struct{}, stop func())
	Managing
}

const (
	mostStreams  = 64               // open live streams
	lookEvery    = time.Second      // how often a live page checks for slots without changes
	mostTries    = 4                // concurrent trial executions
	slowestWrite = 60 * time.Second // how long a browser may take to read a page
	heartbeat    = 15 * time.Second // interval between keep-alive messages of a stream
	slowestEvent = 10 * time.Second
)

// A Server serves the pages. It implements web.Pages.
type Server struct {
	Config
	mux       *http.ServeMux
	assets    assets
	templates map[string]*template.Template // parsed templates by page
	sessions  *sessions
	catalogue *catalogue
	profiles  *profileIndex
	trends    trends
	counted   cached[counted]
	halts     web.Halts
	streams   *registry.Places
	builds    chan struct{}    // limits concurrent page builds
	strangers chan struct{}    // the same for those without a token
	once      sync.Mutex       // held while a rule is made that may exist
	tries     *registry.Places // limits concurrent trial executions
	done      chan struct{}
}

var _ web.Pages = (*Server)(nil)

// Close ends the live streams. Call it once, when the server stops.
func (s *Server) Close() { close(s.done) }

// Managing holds the dependencies of the pages about the server itself.
type Managing struct {
	// Settings returns the effective configuration with secrets masked.
	Settings func() ([]Setting, error)
	// Storage returns the size of the store in bytes, and the part of it that is available for reuse.
	Storage func() (size, free int64, err error)
	// Probe sends a small query to an endpoint that is not yet registered. An error
	// that the user can correct is a *registry.Problem.
	Probe func(ctx context.Context, e registry.Endpoint) (time.Duration, error)
	// Started is when the process began.
	Started time.Time
	// NoContact is set on a server that names no contact, and so asks no public endpoint.
	NoContact bool
}

// A Setting is a configuration value and its source.
type Setting struct {
	Key, Value string
	From       string // "flag", "environment", "file", "secret file", "default" or, for an endpoint, "changed here by …"
}
