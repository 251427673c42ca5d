package web

// This file has the table of the routes.

import (
	"maps"
	"net/http"
	"slices"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/client"
	"github.com/freshet/freshet/web/docs"
)

func (s *server) table() []route {
	const (
		read  = registry.RoleRead
		app   = registry.RoleApp
		admin = registry.RoleAdmin
	)
	query, endpoint, profile, webhook := (*call).query, (*call).endpoint, (*call).profile, (*call).webhook
	watched, rule, subscription := (*call).watched, (*call).rule, (*call).subscription
	t := []route{
		{method: "GET", path: "/healthz", run: on(serverAPI.healthz)},
		{method: "GET", path: "/readyz", run: on(serverAPI.readyz)},
		{method: "GET", path: "/problems/{slug}", run: on(serverAPI.explainProblem)},
		{method: "GET", path: "/v1", run: on(serverAPI.index)},
		{method: "GET", path: "/v1/status", need: read, run: on(serverAPI.status)},
		{method: "GET", path: "/v1/openapi.yaml", run: description(docs.OpenAPI)},
		{method: "GET", path: "/v1/asyncapi.yaml", run: description(docs.AsyncAPI)},
		{method: "GET", path: "/freshet.js", run: asset("text/javascript; charset=utf-8", client.Script)},
		{method: "GET", path: "/freshet.d.ts", run: asset("application/typescript; charset=utf-8", client.Types)},
		{method: "GET", path: "/freshet-rdfjs.js", run: asset("text/javascript; charset=utf-8", client.Quads)},
		{method: "GET", path: "/freshet-rdfjs.d.ts", run: asset("application/typescript; charset=utf-8", client.QuadTypes)},
		{method: "GET", path: "/freshet.py", run: asset("text/x-python; charset=utf-8", client.Python)},

		{method: "POST", path: "/mcp", need: read, stream: true, rpc: true, run: on(agentAPI.answer)},

		{method: "GET", path: "/v1/queries", need: read, run: on(queryAPI.list), takes: "endpoint state tag q limit cursor"},
		{method: "POST", path: "/v1/queries", need: app, run: on(queryAPI.register)},
		{method: "POST", path: "/v1/queries/validate", need: app, stream: true, run: on(queryAPI.validate), takes: "run whole"},
		{method: "GET", path: "/v1/queries/{id}", need: read, run: of(query, queryAPI.show)},
		{method: "PATCH", path: "/v1/queries/{id}", need: app, run: on(queryAPI.edit)},
		{method: "DELETE", path: "/v1/queries/{id}", need: app, run: on(queryAPI.release), takes: "force"},
		{method: "POST", path: "/v1/queries/{id}/refresh", need: app, run: act(http.StatusAccepted, (*registry.Registry).Refresh)},
		{method: "POST", path: "/v1/queries/{id}/pause", need: app, run: act(http.StatusOK, (*registry.Registry).Pause)},
		{method: "POST", path: "/v1/queries/{id}/resume", need: app, run: act(http.StatusOK, (*registry.Registry).Resume)},
		{method: "GET", path: "/v1/queries/{id}/explain", need: read, run: of(query, queryAPI.explain)},
		{method: "GET", path: "/v1/queries/{id}/results", need: read, topic: true, stream: true, run: serveResults(""), takes: "at seq"},
		{method: "GET", path: "/v1/queries/{id}/changes", need: read, topic: true, stream: true, run: of(query, changeAPI.list),
			takes: "after limit min_jaccard min_rows vars where rate"},
		{method: "GET", path: "/v1/queries/{id}/changes/latest", need: read, topic: true, stream: true, run: of(query, changeAPI.latest)},
		{method: "GET", path: "/v1/queries/{id}/changes/diff", need: read, topic: true, stream: true, run: of(query, changeAPI.diff),
			takes: "from to"},
		{method: "GET", path: "/v1/queries/{id}/changes.rdfp", need: read, topic: true, stream: true, run: of(query, changeAPI.patch),
			takes: "after limit"},
		{method: "GET", path: "/v1/queries/{id}/ldes", need: read, topic: true, stream: true, run: of(query, changeAPI.ldes),
			takes: "key page state"},
		{method: "GET", path: "/v1/queries/{id}/timemap", need: read, topic: true, stream: true, run: of(query, resultAPI.timeMap),
			takes: "format after limit"},
		{method: "GET", path: "/v1/queries/{id}/changes.atom", need: read, topic: true, stream: true, run: of(query, changeAPI.queryFeed),
			takes: "archive min_jaccard min_rows vars where"},
		{method: "GET", path: "/v1/changes", need: read, stream: true, run: on(changeAPI.all),
			takes: "endpoint tag min_jaccard min_rows vars where rate after limit"},
		{method: "GET", path: "/v1/changes.atom", need: read, stream: true, run: on(changeAPI.allFeed),
			takes: "endpoint tag archive min_jaccard min_rows vars where"},

		{method: "GET", path: "/v1/watches", need: read, run: on(watchAPI.list), takes: "endpoint q limit cursor"},
		{method: "POST", path: "/v1/watches", need: app, stream: true, run: on(watchAPI.register)},
		{method: "POST", path: "/v1/watches/validate", need: app, stream: true, run: on(watchAPI.validate), takes: "run"},
		{method: "GET", path: "/v1/watches/{id}", need: read, stream: true, run: of(watched, watchAPI.show)},
		{method: "DELETE", path: "/v1/watches/{id}", need: app, run: on(watchAPI.release), takes: "force"},
		{method: "GET", path: "/v1/watches/{id}/changes", need: read, stream: true, run: of(watched, watchAPI.changes), takes: "after limit"},
		{method: "GET", path: "/v1/watches/{id}/changes.atom", need: read, topic: true, stream: true, run: of(watched, watchAPI.feed),
			takes: "archive min_jaccard min_rows vars where"},

		{method: "GET", path: "/v1/endpoints", need: read, run: on(endpointAPI.list)},
		{method: "POST", path: "/v1/endpoints", need: admin, run: on(endpointAPI.create)},
		{method: "GET", path: "/v1/endpoints/{name}", need: read, run: of(endpoint, endpointAPI.show)},
		{method: "PATCH", path: "/v1/endpoints/{name}", need: admin, run: on(endpointAPI.edit)},
		{method: "DELETE", path: "/v1/endpoints/{name}", need: admin, run: on(endpointAPI.remove)},
		{method: "GET", path: "/v1/endpoints/{name}/slots", need: read, run: of(endpoint, endpointAPI.slots), takes: "limit"},
		{method: "GET", path: "/v1/endpoints/{name}/due", need: read, run: of(endpoint, endpointAPI.due), takes: "query"},
		{method: "POST", path: "/v1/endpoints/{name}/pause", need: admin, run: on(endpointAPI.pause)},
		{method: "POST", path: "/v1/endpoints/{name}/resume", need: admin, run: on(endpointAPI.resume)},
		{method: "POST", path: "/v1/endpoints/{name}/revert", need: admin, run: on(endpointAPI.revert), takes: "setting"},
		{method: "POST", path: "/v1/endpoints/{name}/tick", need: admin, stream: true, run: of(endpoint, endpointAPI.tick)},
		{method: "POST", path: "/v1/endpoints/{name}/hints", need: app, run: on(endpointAPI.hint)},
		{method: "GET", path: "/v1/endpoints/{name}/templates", need: read, run: of(endpoint, endpointAPI.templates)},
		{method: "GET", path: "/v1/endpoints/{name}/shadows", need: read, stream: true, run: of(endpoint, endpointAPI.shadows)},
		{method: "POST", path: "/v1/endpoints/{name}/shadows", need: admin, run: on(endpointAPI.addShadow)},
		{method: "DELETE", path: "/v1/endpoints/{name}/shadows", need: admin, run: on(endpointAPI.dropShadow), takes: "policy"},
		{method: "POST", path: "/v1/endpoint-check", need: admin, stream: true, run: on(endpointAPI.check)},

		{method: "GET", path: "/v1/packs", need: read, run: on(endpointAPI.packs)},

		{method: "GET", path: "/v1/tokens", need: admin, run: on(tokenAPI.list)},
		{method: "POST", path: "/v1/tokens", need: admin, run: on(tokenAPI.create)},
		{method: "DELETE", path: "/v1/tokens/{name}", need: admin, run: on(tokenAPI.revoke)},
		{method: "GET", path: "/metrics/results", need: read, stream: true, run: on(serverAPI.gauges),
			takes: "query label limit endpoint state tag q"},
		{method: "GET", path: "/v1/backup", need: admin, stream: true, run: on(serverAPI.backup)},

		{method: "GET", path: "/v1/feeds", need: read, run: on(feedAPI.list)},
		{method: "GET", path: "/v1/feeds/{name}", need: read, run: on(feedAPI.show)},
		{method: "POST", path: "/v1/feeds/{name}", need: app, run: on(feedAPI.deltas)},

		{method: "GET", path: "/v1/subscriptions", need: read, run: on(followerAPI.list), takes: "way state query q limit cursor"},
		{method: "GET", path: "/v1/subscriptions/{id}", need: read, run: of(subscription, followerAPI.show)},
		{method: "DELETE", path: "/v1/subscriptions/{id}", need: read, run: actOnSubscription("drop")},
		{method: "POST", path: "/v1/subscriptions/{id}/pause", need: read, run: actOnSubscription("pause")},
		{method: "POST", path: "/v1/subscriptions/{id}/resume", need: read, run: actOnSubscription("resume")},
		{method: "GET", path: "/v1/webhooks", need: read, run: on(followerAPI.listWebhooks), takes: "limit cursor"},
		{method: "POST", path: "/v1/webhooks", need: app, run: on(followerAPI.createWebhook)},
		{method: "GET", path: "/v1/webhooks/{id}", need: read, run: of(webhook, followerAPI.showWebhook)},
		{method: "PATCH", path: "/v1/webhooks/{id}", need: app, run: of(webhook, followerAPI.editWebhook)},
		{method: "DELETE", path: "/v1/webhooks/{id}", need: app, run: of(webhook, followerAPI.dropWebhook)},
		{method: "POST", path: "/v1/webhooks/{id}/rotate", need: app, run: of(webhook, followerAPI.rotateWebhook)},
		{method: "POST", path: "/v1/webhooks/{id}/replay", need: app, run: of(webhook, followerAPI.replayWebhook)},
		{method: "POST", path: "/v1/receivers", need: app, run: on(followerAPI.createReceiver)},
		{method: "POST", path: "/v1/receivers/test", need: app, stream: true, run: on(followerAPI.testReceiver)},
		{method: "GET", path: "/v1/dead-letters", need: read, run: on(followerAPI.listLetters), takes: "limit cursor"},
		{method: "POST", path: "/v1/subscriptions/{id}/dead-letters/{letter}/resend", need: app, run: of(subscription, followerAPI.resendLetter)},
		{method: "DELETE", path: "/v1/subscriptions/{id}/dead-letters/{letter}", need: app, run: of(subscription, followerAPI.dropLetter)},

		{method: "GET", path: "/v1/rules", need: read, run: on(ruleAPI.list), takes: "status query limit cursor"},
		{method: "POST", path: "/v1/rules", need: app, run: on(ruleAPI.create)},
		{method: "POST", path: "/v1/rules/try", need: app, stream: true, run: on(ruleAPI.try)},
		{method: "GET", path: "/v1/rules/{id}", need: read, run: of(rule, ruleAPI.show)},
		{method: "GET", path: "/v1/rules/{id}/alerts", need: read, run: of(rule, ruleAPI.alerts), takes: "state limit cursor"},
		{method: "PATCH", path: "/v1/rules/{id}", need: app, run: on(ruleAPI.edit)},
		{method: "POST", path: "/v1/rules/{id}/pause", need: app, run: on(setRulePaused(true))},
		{method: "POST", path: "/v1/rules/{id}/resume", need: app, run: on(setRulePaused(false))},
		{method: "DELETE", path: "/v1/rules/{id}", need: app, run: on(ruleAPI.remove)},

		{method: "GET", path: "/v1/profiles", need: read, run: on(profileAPI.list), takes: "endpoint holder q limit cursor"},
		{method: "POST", path: "/v1/profiles", need: app, run: on(profileAPI.create)},
		{method: "GET", path: "/v1/profiles/{id}", need: read, run: of(profile, profileAPI.show)},
		{method: "PATCH", path: "/v1/profiles/{id}", need: app, run: on(profileAPI.edit)},
		{method: "DELETE", path: "/v1/profiles/{id}", need: app, run: on(profileAPI.remove)},
		{method: "GET", path: "/v1/profiles/{id}/captures", need: read, stream: true, run: of(profile, profileAPI.captures),
			takes: "after limit state cursor"},
	}
	for _, x := range slices.Sorted(maps.Keys(mediaTypes)) {
		t = append(t, route{method: "GET", path: "/v1/queries/{id}/results." + x, need: read, topic: true, stream: true, run: serveResults(x),
			takes: "at seq"})
	}
	if s.Live != nil {
		t = append(t, route{method: "GET", path: "/v1/live", stream: true, run: handled(s.Live)})
	}
	if s.SEPA != nil {
		t = append(t, route{method: "GET", path: "/sepa/subscribe", stream: true, run: handled(s.SEPA)})
	}
	if s.Hub != nil {
		t = append(t, route{method: "POST", path: "/v1/hub", run: handled(s.Hub)})
	}
	if s.Cluster != nil {
		t = append(t,
			route{method: "GET", path: "/v1/cluster", need: admin, run: on(serverAPI.cluster)},
			route{method: "POST", path: "/v1/cluster/nodes/{name}/drain", need: admin, run: on(serverAPI.drain)})
	}
	if s.Metrics != nil {
		t = append(t, route{method: "GET", path: "/metrics", need: read, run: handled(scrapes(s))})
	}
	return t
}
