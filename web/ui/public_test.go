package ui

import (
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// The links in e-mails to visitors and in public feeds lead to pages that need no token. They show the result and its changes
// only. Of other queries strangers do not learn whether there are any.
func TestStrangerReadsPublicQuery(t *testing.T) {
	ops, secret := token("ops", registry.RoleAdmin)
	r := newRig(t, ops)
	r.endpoint("city")
	const text = selectText + " # of the holder"
	q, _, err := r.reg.Register(admin, registry.Registration{Endpoint: "city", Text: text, Name: "free-places", Public: true,
		Tags: []string{"inside"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = r.reg.Register(registry.Caller{Name: "another", Role: registry.RoleApp}, registry.Registration{Endpoint: "city",
		Text: text, Name: "my-secret-use"}); err != nil {
		t.Fatal(err)
	}
	private := r.register("city", "private", "ASK { ?a ?b ?c }")
	long := lit(strings.Repeat("long ", 400))
	r.oracle.set(q.ID, table(t, [2]diff.Term{iri("a"), lit("1")}))
	r.tick("city")
	r.oracle.set(q.ID, table(t, [2]diff.Term{iri("a"), long}))
	r.tick("city")
	if _, err := r.store.Subscriptions.EditSubscription("w_1", func(s *registry.Subscription, _ bool) error {
		*s = registry.Subscription{ID: "w_1", Way: registry.Webhook, Caller: "another", Name: "hook", Query: q.ID, State: registry.Active}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	at := queryPath(q.ID)
	inside := []string{"another", "my-secret-use", "inside", "ops", "hook", ">city<", "of the holder", "What was asked for", "Who follows",
		`method="post" action="/queries`, "Why it runs", "data-events", "/metrics/results", "/tell", "Atom feed", `href="/queries"`}
	for path, words := range map[string][]string{at: {"free-places", "Changed ", ", checked ", "long long", "Sign in"},
		at + "?a=1&b=2":           {"only in 2", "only in 1"},
		at + "?b=1":               {"version 1 since"},
		at + "/changes/2":         {"free-places", "Change 2", "+ 1 row"},
		"/queries/free-places":    {"free-places"},
		at + "/changes/2?row=500": {"Change 2"},
	} {
		r.get(path).status(200).has(words...).lacks(inside...)
		r.get(path, "Cookie: "+r.pages.sessions.cookie+"=over").status(200).lacks("Sign out")
	}
	for _, path := range []string{at + "/changes/2/value?side=added&row=0&col=1", at + "/result?b=2&row=0&col=1",
		at + "/difference?a=1&b=2&side=added&row=0&col=1"} {
		r.get(path).status(200).has(long.Value)
	}
	for range cap(r.pages.builds) { // of those who have signed in
		r.pages.builds <- struct{}{}
	}
	r.get(at).status(200)
	for range cap(r.pages.builds) {
		<-r.pages.builds
	}
	r.get(at + "/changes/9").status(404).has("There is no such change").lacks(inside[:6]...)
	other := strings.Repeat("0", len(q.ID)-2)
	for _, path := range []string{"", "?a=1&b=2", "/changes/1", "/result?b=1&row=0&col=0"} {
		a, b := r.get(queryPath(private.ID)+path).status(401), r.get(queryPath("q_"+other)+path).status(401)
		if strings.ReplaceAll(a.main(), private.ID, "") != strings.ReplaceAll(b.main(), "q_"+other, "") {
			t.Errorf("%s: a private query looks unlike none:\n%s\n%s", path, a.main(), b.main())
		}
	}
	for _, path := range []string{at + "/text", at + "/settings", at + "/tell", at + "/release", "/queries", "/watches/" + q.ID} {
		r.get(path).status(401).has("asks for a token")
	}
	r.get("/ui/events" + at).status(403)
	r.post(at, "do", "pause").status(401)
	// Signing in leads back to the page, with all of it.
	r.get("/signin?next=" + at).has(`value="` + at + `"`)
	r.follow(r.post("/signin", "token", secret, "next", at)).status(200).has("What was asked for", "another", "of the holder")
	if got := r.get("/signin?next=" + at).status(303).Header.Get("Location"); got != at {
		t.Errorf("a signed-in visitor goes to %s", got)
	}
}
