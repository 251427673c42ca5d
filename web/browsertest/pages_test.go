package browsertest

import "strconv"

func itoa(i int) string { return strconv.Itoa(i) }

// A look is a page as one user sees it.
type look struct {
	name  string
	role  string // role of the signed-in user, "" for none
	path  string
	shows string // a text that the page must show

	refused bool // the response is an error, which the browser logs
}

// pages lists all pages that a user can open.
func pages(w *world) []look {
	return []look{
		{name: "signin", role: "", path: "/signin", shows: "Sign in"},
		{name: "overview", role: "admin", path: "/", shows: "Endpoint time"},
		{name: "queries", role: "admin", path: "/queries", shows: "Free-spaces-by-garage"},
		{name: "queries-none", role: "read", path: "/queries?q=nothing+has+this", shows: "nothing has this"},
		{name: "query", role: "admin", path: "/queries/" + w.queries["free"], shows: "Why it runs"},
		{name: "query-hostile", role: "admin", path: "/queries/" + w.queries["hostile"], shows: "Why it runs"},
		{name: "query-stale", role: "read", path: "/queries/" + w.queries["lost"], shows: "Why it"},
		{name: "query-graph", role: "read", path: "/queries/" + w.queries["graph"], shows: "Why it runs"},
		{name: "query-settings", role: "admin", path: "/queries/" + w.queries["free"] + "/settings", shows: "weight"},
		{name: "release", role: "admin", path: "/queries/" + w.queries["free"] + "/release"},
		{name: "register", role: "admin", path: "/register", shows: "Write or paste a query"},
		{name: "register-full", role: "admin", path: "/register?endpoint=city&query=" +
			escape(prefix+"SELECT ?g WHERE { ?g c:free ?f FILTER(NOW() > 0) }\nLIMIT 10"), shows: "2 things to know"},
		{name: "endpoints", role: "admin", path: "/endpoints", shows: "broken"},
		{name: "endpoint", role: "admin", path: "/endpoints/city", shows: "seconds used"},
		{name: "endpoint-failing", role: "admin", path: "/endpoints/broken", shows: "does not answer"},
		{name: "endpoint-new", role: "admin", path: "/endpoints/still", shows: "No slot has run yet"},
		{name: "endpoint-queries", role: "admin", path: "/endpoints/city?tab=queries&slot=1", shows: "What ran in slot 1"},
		{name: "endpoint-settings", role: "admin", path: "/endpoints/city?tab=settings", shows: "In force from the next slot on"},
		{name: "endpoint-settings-reader", role: "read", path: "/endpoints/city?tab=settings", shows: "Admins may change them"},
		{name: "feeds", role: "admin", path: "/feeds", shows: "Came twice"},
		{name: "feeds-reader", role: "read", path: "/feeds", shows: "Came twice"},
		{name: "problem", role: "", path: "/problems/gap", shows: "What to do"},
		{name: "problem-reader", role: "read", path: "/problems/storage-full", shows: "What to do"},
		{name: "endpoint-reader", role: "read", path: "/endpoints/city", shows: "seconds used"},
		{name: "add-endpoint", role: "admin", path: "/add-endpoint", shows: "timeout_param"},
		{name: "remove", role: "admin", path: "/endpoints/still/remove", shows: "cannot be brought back"},
		{name: "profiles", role: "admin", path: "/profiles", shows: "Departure board"},
		{name: "profile", role: "admin", path: "/profiles/Departure%20board", shows: "newest first"},
		{name: "query-past", role: "admin", path: "/queries/" + w.queries["free"] + "?b=1&a=2", shows: "link to this time"},
		{name: "add-profile", role: "admin", path: "/add-profile", shows: "window"},
		{name: "deliveries", role: "admin", path: "/deliveries", shows: "alerts"},
		{name: "dead-letters", role: "admin", path: "/dead-letters", shows: "Send all again"},
		{name: "dead-letters-reader", role: "read", path: "/dead-letters", shows: "Every message was received"},
		{name: "drop-dead-letters", role: "app", path: "/dead-letters/drop", shows: "Drop all dead letters?"},
		{name: "watch", role: "app", path: "/watch", shows: "Paste a link"},
		{name: "tell", role: "app", path: "/queries/" + w.queries["free"] + "/tell?row=0", shows: "this row goes"},
		{name: "tell-hostile", role: "app", path: "/queries/" + w.queries["hostile"] + "/tell?row=0", shows: "this row goes"},
		{name: "rules", role: "admin", path: "/rules?query=" + w.queries["free"], shows: "any-change"},
		{name: "rule", role: "admin", path: "/rules/some", shows: "History"},
		{name: "remove-rule", role: "admin", path: "/rules/some/remove", shows: "raises no alerts"},
		{name: "tokens", role: "admin", path: "/tokens", shows: "wallboard"},
		{name: "revoke", role: "admin", path: "/tokens/guest/revoke", shows: "loses access at once"},
		{name: "settings", role: "admin", path: "/settings", shows: "endpoints.city.budget"},
		{name: "about", role: "read", path: "/about", shows: "OpenAPI"},
		{name: "docs", role: "", path: "/docs", shows: "Add an endpoint"},
		{name: "docs-page", role: "", path: "/docs/endpoints", shows: "Sign in"},
		{name: "docs-picture", role: "", path: "/docs/concepts", shows: "What is kept fresh"},
		{name: "docs-figures", role: "", path: "/docs/results", shows: "Detection and delay"},
		{name: "docs-table", role: "read", path: "/docs/metrics", shows: "What is scraped"},
		{name: "docs-reference", role: "read", path: "/docs/reference-configuration", shows: "retention.changes"},
		{name: "docs-objects", role: "", path: "/docs/reference-objects", shows: "Registration"},
		{name: "docs-search", role: "read", path: "/docs?q=budget", shows: "sections with"},
		{name: "not-found", role: "read", path: "/nowhere", shows: "no such page", refused: true},
		{name: "forbidden", role: "read", path: "/tokens", shows: "Not allowed", refused: true},
	}
}
