package alert

import (
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
)

// Alerts of a watch have the labels that are known, and a single one of a public query links its change.
func TestAlertsHaveLabels(t *testing.T) {
	const wd = "http://www.wikidata.org/entity/"
	queries := map[string]registry.Query{}
	for id, tags := range map[string][]string{"watch": {watch.Tag}, "query": nil} {
		queries[id] = registry.Query{ID: id, Endpoint: "wikidata", Holders: []registry.Holder{{Caller: "app", Tags: tags}}}
	}
	public := queries["watch"]
	public.ID, public.Holders = "public", []registry.Holder{{Caller: "app", Tags: []string{watch.Tag}, Public: true, MayPublish: true}}
	queries["public"] = public
	o := Options{PublicURL: "http://fresh.example",
		Query: func(id string) (registry.Query, error) { return queries[id], nil },
		Names: func(endpoint string, _ []string) watch.Namer {
			return func(iri string) string { return map[string]string{wd + "Q6": "Kreuz", wd + "Q64": "Berlin"}[iri] }
		}}
	alert := func(query string) registry.AlertMessage {
		return registry.AlertMessage{Seq: 1, ID: "m", Name: "moved", Query: query, Caller: "app", State: registry.AlertFiring,
			Position: registry.Position{Epoch: "e", Seq: 7},
			Summary:  "now " + wd + "Q64, was (" + wd + "Q6) or " + wd + "Q645", Labels: map[string]string{"place": wd + "Q64", "n": "6"}}
	}
	for query, want := range map[string]string{
		"watch":  "now Berlin, was (Kreuz) or " + wd + "Q645\nn 6, place Berlin\nhttp://fresh.example/queries/watch",
		"public": "now Berlin, was (Kreuz) or " + wd + "Q645\nn 6, place Berlin\nhttp://fresh.example/queries/public/changes/7",
		"query":  "now " + wd + "Q64, was (" + wd + "Q6) or " + wd + "Q645\nn 6, place " + wd + "Q64\nhttp://fresh.example/queries/query",
	} {
		list := []registry.AlertMessage{alert(query)}
		if m := o.words(list); m.Text+"\n"+m.Link != want {
			t.Errorf("%s:\n%s\n%s\nwant\n%s", query, m.Text, m.Link, want)
		}
		if list[0].Labels["place"] != wd+"Q64" {
			t.Error("the stored message is changed")
		}
	}
	again := alert("public")
	again.Seq = 0
	if m := o.words([]registry.AlertMessage{again}); m.Link != "http://fresh.example/queries/public" {
		t.Errorf("a repetition links %s", m.Link)
	}
}
