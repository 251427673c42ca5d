package web

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/freshet/freshet/registry"
)

// A route is one call of the API. The table below is the only list of routes: dispatch,
// 405 with Allow, roles and the test of the OpenAPI document read it.
type route struct {
	method string
	path   string
	need   registry.Role // "" if no role is required
	topic  bool          // callers without a token may read it of public queries
	stream bool          // has no deadline
	run    func(*call) error
}

// Suffixes of the representations of a result.
var suffixes = []string{"srj", "srx", "csv", "tsv", "nt", "ttl"}

func (s *server) table() []route {
	const (
		read  = registry.RoleRead
		app   = registry.RoleApp
		admin = registry.RoleAdmin
	)
	t := []route{
		{method: "GET", path: "/healthz", run: healthz},
		{method: "GET", path: "/readyz", run: readyz},
		{method: "GET", path: "/problems/{slug}", run: explainProblem},
		{method: "GET", path: "/v1", run: index},
		{method: "GET", path: "/v1/openapi.yaml", run: openAPI},
		{method: "GET", path: "/v1/asyncapi.yaml", run: asyncAPI},
		{method: "GET", path: "/freshet.js", run: clientScript},
		{method: "GET", path: "/freshet.d.ts", run: clientTypes},

		{method: "GET", path: "/v1/queries", need: read, run: listQueries},
		{method: "POST", path: "/v1/queries", need: app, run: registerQuery},
		{method: "POST", path: "/v1/queries/validate", need: app, stream: true, run: validateQuery},
		{method: "GET", path: "/v1/queries/{id}", need: read, run: showQuery},
		{method: "PATCH", path: "/v1/queries/{id}", need: app, run: patchQuery},
		{method: "DELETE", path: "/v1/queries/{id}", need: app, run: releaseQuery},
		{method: "POST", path: "/v1/queries/{id}/refresh", need: app, run: refreshQuery},
		{method: "POST", path: "/v1/queries/{id}/pause", need: app, run: pauseQuery},
		{method: "POST", path: "/v1/queries/{id}/resume", need: app, run: resumeQuery},
		{method: "GET", path: "/v1/queries/{id}/explain", need: read, run: explainQuery},
		{method: "GET", path: "/v1/queries/{id}/results", need: read, topic: true, stream: true, run: results("")},
		{method: "GET", path: "/v1/queries/{id}/changes", need: read, topic: true, stream: true, run: queryChanges},
		{method: "GET", path: "/v1/queries/{id}/changes/latest", need: read, topic: true, stream: true, run: latestChange},
		{method: "GET", path: "/v1/changes", need: read, stream: true, run: allChanges},

		{method: "GET", path: "/v1/endpoints", need: read, run: listEndpoints},
		{method: "POST", path: "/v1/endpoints", need: admin, run: createEndpoint},
		{method: "GET", path: "/v1/endpoints/{name}", need: read, run: showEndpoint},
		{method: "PATCH", path: "/v1/endpoints/{name}", need: admin, run: patchEndpoint},
		{method: "DELETE", path: "/v1/endpoints/{name}", need: admin, run: deleteEndpoint},
		{method: "GET", path: "/v1/endpoints/{name}/slots", need: read, run: listSlots},
		{method: "POST", path: "/v1/endpoints/{name}/pause", need: admin, run: pauseEndpoint},
		{method: "POST", path: "/v1/endpoints/{name}/resume", need: admin, run: resumeEndpoint},
		{method: "POST", path: "/v1/endpoints/{name}/revert", need: admin, run: revertEndpoint},
		{method: "POST", path: "/v1/endpoints/{name}/tick", need: admin, stream: true, run: tickEndpoint},

		{method: "GET", path: "/v1/tokens", need: admin, run: listTokens},
		{method: "POST", path: "/v1/tokens", need: admin, run: createToken},
		{method: "DELETE", path: "/v1/tokens/{name}", need: admin, run: deleteToken},
		{method: "GET", path: "/v1/backup", need: admin, stream: true, run: backup},
	}
	for _, x := range suffixes {
		t = append(t, route{method: "GET", path: "/v1/queries/{id}/results." + x, need: read, topic: true, stream: true, run: results(x)})
	}
	if s.Live != nil {
		t = append(t, route{method: "GET", path: "/v1/live", stream: true, run: handled(s.Live)})
	}
	if s.Feeds != nil {
		t = append(t,
			route{method: "GET", path: "/v1/queries/{id}/changes.atom", need: read, topic: true, stream: true, run: queryFeed},
			route{method: "GET", path: "/v1/changes.atom", need: read, stream: true, run: allFeed})
	}
	if s.Hints != nil {
		t = append(t, route{method: "POST", path: "/v1/endpoints/{name}/hints", need: app, run: hintEndpoint})
	}
	if s.Shadows != nil {
		t = append(t,
			route{method: "GET", path: "/v1/endpoints/{name}/shadows", need: read, stream: true, run: showShadows},
			route{method: "POST", path: "/v1/endpoints/{name}/shadows", need: admin, run: addShadow},
			route{method: "DELETE", path: "/v1/endpoints/{name}/shadows", need: admin, run: dropShadow})
	}
	if s.SEPA != nil {
		t = append(t, route{method: "GET", path: "/sepa/subscribe", stream: true, run: handled(s.SEPA)})
	}
	if s.Hub != nil {
		t = append(t, route{method: "POST", path: "/v1/hub", run: handled(s.Hub)})
	}
	if s.Subscriptions != nil && s.Webhooks != nil {
		t = append(t,
			route{method: "GET", path: "/v1/subscriptions", need: read, run: listSubscriptions},
			route{method: "GET", path: "/v1/subscriptions/{id}", need: read, run: showSubscription},
			route{method: "DELETE", path: "/v1/subscriptions/{id}", need: read, run: actOnSubscription("drop")},
			route{method: "POST", path: "/v1/subscriptions/{id}/pause", need: read, run: actOnSubscription("pause")},
			route{method: "POST", path: "/v1/subscriptions/{id}/resume", need: read, run: actOnSubscription("resume")},
			route{method: "GET", path: "/v1/webhooks", need: read, run: listWebhooks},
			route{method: "POST", path: "/v1/webhooks", need: app, run: createWebhook},
			route{method: "GET", path: "/v1/webhooks/{id}", need: read, run: showWebhook},
			route{method: "PATCH", path: "/v1/webhooks/{id}", need: app, run: patchWebhook},
			route{method: "DELETE", path: "/v1/webhooks/{id}", need: app, run: dropWebhook},
			route{method: "POST", path: "/v1/webhooks/{id}/rotate", need: app, run: rotateWebhook},
			route{method: "POST", path: "/v1/webhooks/{id}/replay", need: app, run: replayWebhook})
	}
	if s.Profiles != nil {
		t = append(t,
			route{method: "GET", path: "/v1/profiles", need: read, run: listProfiles},
			route{method: "POST", path: "/v1/profiles", need: app, run: createProfile},
			route{method: "GET", path: "/v1/profiles/{id}", need: read, run: showProfile},
			route{method: "PATCH", path: "/v1/profiles/{id}", need: app, run: patchProfile},
			route{method: "DELETE", path: "/v1/profiles/{id}", need: app, run: deleteProfile},
			route{method: "GET", path: "/v1/profiles/{id}/captures", need: read, stream: true, run: listCaptures})
	}
	if s.Metrics != nil {
		t = append(t, route{method: "GET", path: "/metrics", need: read, run: handled(s.Metrics.handler(s))})
	}
	return t
}

// index links the calls whose path has no parameters.
func index(c *call) error {
	links := map[string]string{}
	for _, rt := range c.routes {
		if name, ok := strings.CutPrefix(rt.path, "/v1/"); ok && !strings.Contains(name, "/") {
			links[name] = c.url(rt.path)
		}
	}
	return c.json(http.StatusOK, map[string]any{"links": links})
}

// handled passes a call to a handler.
func handled(h http.Handler) func(*call) error {
	return func(c *call) error {
		h.ServeHTTP(c.w, c.r)
		return nil
	}
}

func healthz(c *call) error { return c.text(http.StatusOK, "ok\n") }

// readyz answers 200 as long as results can be read and followed, even if the disk is
// full or an endpoint added lately is not there yet.
func readyz(c *call) error {
	if err := c.Health.Ready(); err != nil {
		return &problem{Problem: newProblem("not-ready", err.Error()), retryAfter: 1}
	}
	text := "ready"
	if s := c.Health.Disk(); s.ReadOnly {
		text += ", read-only: " + s.Reason
	} else if s.Reason != "" {
		text += ", short of storage: " + s.Reason
	}
	if n := c.Health.Starting(); n > 0 {
		text += fmt.Sprintf(", endpoints that still read their queries: %d", n)
	}
	return c.text(http.StatusOK, text+"\n")
}
