package ui

import (
	"net/http"
	"runtime"
	"strings"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// pages lists all pages, actions all forms, and texts the plain-text resources.
func (s *Server) pages() []page {
	const read, app, admin = registry.RoleRead, registry.RoleApp, registry.RoleAdmin
	return []page{
		{path: "/{$}", look: "overview", section: "overview", need: read, build: by(overviewHandler.page), live: true},
		{path: "/queries", look: "queries", section: "queries", need: read, build: by(queriesHandler.page), live: true},
		{path: "/queries/{id}", look: "query", section: "queries", need: read, open: true, build: by(queryHandler.page), live: true},
		{path: "/queries/{id}/changes/{seq}", look: "change", section: "queries", need: read, open: true, build: by(resultHandler.changePage)},
		{path: "/queries/{id}/release", look: "release", section: "queries", need: app, build: by(holderHandler.releasePage)},
		{path: "/queries/{id}/settings", look: "query-settings", section: "queries", need: app, build: by(holderHandler.edit)},
		{path: "/queries/{id}/tell", look: "tell", section: "rules", need: app, build: by(tellHandler.page)},
		{path: "/register", look: "register", section: "queries", need: app, build: by(registerHandler.page)},
		{path: "/watch", look: "watch", section: "queries", need: app, build: by(watchHandler.page)},
		{path: "/watches/{id}", look: "watched", section: "queries", need: read, build: by(watchHandler.changes), live: true},
		{path: "/endpoints", look: "endpoints", section: "endpoints", need: read, build: by(endpointHandler.list), live: true},
		{path: "/feeds", look: "feeds", section: "feeds", need: read, build: by(endpointHandler.feeds), live: true},
		{path: "/add-endpoint", look: "newendpoint", section: "endpoints", need: admin, build: by(newEndpointHandler.page)},
		{path: "/endpoints/{name}", look: "endpoint", section: "endpoints", need: read, build: by(endpointHandler.page), live: true},
		{path: "/endpoints/{name}/remove", look: "confirm", section: "endpoints", need: admin, build: by(endpointHandler.askToRemove)},
		{path: "/deliveries", look: "deliveries", section: "deliveries", need: read, build: by(deliveryHandler.page), live: true},
		{path: "/deliveries/{id}/drop", look: "confirm", section: "deliveries", need: read, build: by(deliveryHandler.askToDrop)},
		{path: "/dead-letters", look: "letters", section: "letters", need: read, build: by(letterHandler.page), live: true},
		{path: "/dead-letters/drop", look: "confirm", section: "letters", need: app, build: by(letterHandler.askToDrop)},
		{path: "/rules", look: "rules", section: "rules", need: read, build: by(ruleHandler.page), live: true},
		{path: "/rules/{id}", look: "rule", section: "rules", need: read, build: by(ruleHandler.show), live: true},
		{path: "/rules/{id}/remove", look: "confirm", section: "rules", need: app, build: by(ruleHandler.askToRemove)},
		{path: "/tokens", look: "tokens", section: "tokens", need: admin, build: by(tokenHandler.page)},
		{path: "/tokens/{name}/revoke", look: "confirm", section: "tokens", need: admin, build: by(tokenHandler.askToRevoke)},
		{path: "/profiles", look: "profiles", section: "profiles", need: read, build: by(profileHandler.list), live: true},
		{path: "/profiles/{id}", look: "profile", section: "profiles", need: read, build: by(profileHandler.page), live: true},
		{path: "/add-profile", look: "newprofile", section: "profiles", need: app, build: by(profileHandler.add)},
		{path: "/profiles/{id}/remove", look: "confirm", section: "profiles", need: app, build: by(profileHandler.askToRemove)},
		{path: "/cluster", look: "cluster", section: "cluster", need: admin, build: by(clusterHandler.page), live: true,
			absent: s.Cluster == nil},
		{path: "/settings", look: "settings", section: "settings", need: admin, build: by(serverHandler.settings)},
		{path: "/docs", look: "docs", section: "docs", build: by(docsHandler.index)},
		{path: "/docs/{page}", look: "docs", section: "docs", build: by(docsHandler.page)},
		{path: "/problems/{slug}", look: "problem", section: "docs", build: by(docsHandler.problem)},
		{path: "/about", look: "about", section: "about", need: read, build: by(serverHandler.about)},
	}
}

func (s *Server) actions() []action {
	const read, app, admin = registry.RoleRead, registry.RoleApp, registry.RoleAdmin
	return []action{
		{path: "/signin", run: do(sessionHandler.signIn)},
		{path: "/signout", run: do(sessionHandler.signOut)},
		{path: "/theme", run: do(sessionHandler.setTheme)},
		{path: "/queries", need: app, run: do(queriesHandler.act)},
		{path: "/queries/{id}", need: app, run: do(queryHandler.act)},
		{path: "/queries/{id}/release", need: app, run: do(holderHandler.release)},
		{path: "/queries/{id}/notify", need: app, run: do(queryHandler.notify)},
		{path: "/queries/{id}/settings", need: app, run: do(holderHandler.save)},
		{path: "/queries/{id}/tell", need: app, run: do(tellHandler.tell)},
		{path: "/register", need: app, run: do(registerHandler.register)},
		{path: "/register/check", need: app, run: do(registerHandler.check)},
		{path: "/watch", need: app, run: do(watchHandler.watch)},
		{path: "/endpoints", need: admin, run: do(newEndpointHandler.create)},
		{path: "/endpoints/{name}", need: admin, run: do(endpointHandler.save)},
		{path: "/endpoints/{name}/policy", need: admin, run: do(policyHandler.use)},
		{path: "/endpoints/{name}/compare", need: admin, run: do(policyHandler.compare)},
		{path: "/endpoints/{name}/revert", need: admin, run: do(endpointHandler.revert)},
		{path: "/endpoints/{name}/tick", need: admin, run: do(endpointHandler.tick)},
		{path: "/endpoints/{name}/pause", need: admin, run: do(endpointHandler.pause)},
		{path: "/endpoints/{name}/resume", need: admin, run: do(endpointHandler.resume)},
		{path: "/endpoints/{name}/remove", need: admin, run: do(endpointHandler.remove)},
		{path: "/deliveries/{id}/pause", need: read, run: do(actOnFollower("pause"))},
		{path: "/deliveries/{id}/resume", need: read, run: do(actOnFollower("resume"))},
		{path: "/deliveries/{id}/drop", need: read, run: do(deliveryHandler.drop)},
		{path: "/dead-letters/resend", need: app, run: do(actOnLetters(false))},
		{path: "/dead-letters/drop", need: app, run: do(actOnLetters(true))},
		{path: "/dead-letters/{id}/{letter}/resend", need: app, run: do(actOnLetters(false))},
		{path: "/dead-letters/{id}/{letter}/drop", need: app, run: do(actOnLetters(true))},
		{path: "/profiles", need: app, run: do(profileHandler.create)},
		{path: "/profiles/{id}/remove", need: app, run: do(profileHandler.remove)},
		{path: "/rules", need: app, run: do(ruleHandler.act)},
		{path: "/rules/{id}/remove", need: app, run: do(ruleHandler.remove)},
		{path: "/rules/{id}/test", need: app, run: do(ruleHandler.test)},
		{path: "/rules/{id}/pause", need: app, run: do(setRulePaused(true))},
		{path: "/rules/{id}/resume", need: app, run: do(setRulePaused(false))},
		{path: "/cluster/nodes/{name}/drain", need: admin, run: do(clusterHandler.drain), absent: s.Cluster == nil},
		{path: "/tokens", need: admin, run: do(tokenHandler.make)},
		{path: "/tokens/{name}/revoke", need: admin, run: do(tokenHandler.revoke)},
	}
}

var texts = []action{
	{path: "/push.js", run: do(notifyHandler.worker)},
	{path: "/push-key", need: registry.RoleApp, run: do(notifyHandler.key)},
	{path: "/docs/files/{name}", run: do(docsHandler.file)},
	{path: "/queries/{id}/text", need: registry.RoleRead, run: do(resultHandler.queryText)},
	{path: "/queries/{id}/result", need: registry.RoleRead, open: true, run: do(resultHandler.resultCell)},
	{path: "/queries/{id}/difference", need: registry.RoleRead, open: true, run: do(resultHandler.differenceCell)},
	{path: "/queries/{id}/changes/{seq}/value", need: registry.RoleRead, open: true, run: do(resultHandler.changeCell)},
}

func (s *Server) serveAll() {
	for _, p := range s.pages() {
		if p.absent {
			continue
		}
		s.mux.Handle("GET "+p.path, s.show(p))
		if p.live {
			s.mux.Handle("GET "+strings.TrimSuffix("/ui/events"+p.path, "/{$}"), s.stream(p))
		}
	}
	for _, a := range s.actions() {
		if !a.absent {
			s.mux.Handle("POST "+a.path, s.act(a))
		}
	}
	for _, a := range texts {
		s.mux.Handle("GET "+a.path, s.act(a))
	}
	s.mux.HandleFunc("GET /signin", s.signInPage)
	s.mux.Handle("GET /ui/static/{hash}/{name}", s.assets)
	s.mux.HandleFunc("/", s.nothing)
}

// New returns the server of the pages.
func New(c Config) (*Server, error) {
	c.Complete()
	halts := web.Halts{Registry: c.Registry, Daemon: c.Daemon}
	c.Rules = &sharedTotals{allRules: c.Rules}
	all, err := loadAssets()
	if err != nil {
		return nil, err
	}
	templates, err := parsed()
	if err != nil {
		return nil, err
	}
	s := &Server{Config: c, halts: halts, mux: http.NewServeMux(), assets: all, templates: templates,
		sessions: newSessions(c.Now, c.PublicURL), catalogue: newCatalogue(c.Queries, halts.Now, c.Now),
		profiles: &profileIndex{profiles: c.Profiles, now: c.Now}, streams: registry.NewPlaces(mostStreams),
		builds: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), strangers: make(chan struct{}, runtime.GOMAXPROCS(0)),
		tries: registry.NewPlaces(mostTries), done: make(chan struct{})}
	s.serveAll()
	return s, nil
}
