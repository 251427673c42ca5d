package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

// The flags that were given become members of the body with their JSON types, or parameters. Defaults do not. There is a request
// for each of the last arguments.
func TestRequestsOfRows(t *testing.T) {
	flags := []option{
		{name: "name", value: ""},
		{name: "min-interval", value: ""},
		{name: "weight", value: 1.0},
		{name: "public", value: false},
		{name: "tag", value: commaTexts(nil), member: "tags"},
		{name: "graph", value: texts(nil)},
		{name: "most", value: 20, member: "-"},
		{name: "run", value: false, member: "?run"},
	}
	done := func(call string) []row {
		return []row{
			{use: "do THING...", call: call + " /v1/things/{}", flags: flags, out: printDone("done")},
			{use: "plain", call: "POST /v1/things", out: printDone("done")},
			{use: "add NAME KIND...", call: "POST /v1/things/{}?kind={}", arg: "kind", out: printDone("done")},
		}
	}
	const all = "--name n --min-interval 1m --weight 1.5 --public --tag a,b --tag c --graph a,b --most 3 --run"
	for _, x := range []struct{ call, line, want string }{
		{"POST", "do x/y " + all, `POST /v1/things/x%2Fy?run=true {"graph":["a,b"],"min_interval":"1m","name":"n","public":true,` +
			`"tags":["a","b","c"],"weight":1.5}`},
		{"GET", "do x " + all, `GET /v1/things/x?graph=a%2Cb&min_interval=1m&name=n&public=true&run=true&tags=a&tags=b&tags=c&weight=1.5 `},
		{"PATCH", "do x", `PATCH /v1/things/x {}`},
		{"PATCH", "do x --name=", `PATCH /v1/things/x {"name":""}`},
		{"DELETE", "do x --name= --public=false", `DELETE /v1/things/x?public=false `},
		{"DELETE", "do x y", "DELETE /v1/things/x |DELETE /v1/things/y "},
		{"", "plain", "POST /v1/things "},
		{"", "add x a+b c/d", `POST /v1/things/x?kind=a%2Bb {"kind":"a+b"}|POST /v1/things/x?kind=c%2Fd {"kind":"c/d"}`},
	} {
		var got []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body := json.RawMessage{}
			_ = json.NewDecoder(r.Body).Decode(&body) // it may be empty
			w.WriteHeader(http.StatusNoContent)
			got = append(got, r.Method+" "+r.RequestURI+" "+string(body))
		}))
		w := &cli.Env{Stdin: strings.NewReader(""), Stdout: &strings.Builder{}, Stderr: &strings.Builder{},
			Getenv: func(string) string { return "" }}
		c := tableCommand(w, row{use: "things", rows: done(x.call)})
		c.SetArgs(append(strings.Fields(x.line), "--server", s.URL))
		if err := c.ExecuteContext(t.Context()); err != nil {
			t.Errorf("%s: %v", x.line, err)
		}
		s.Close()
		if strings.Join(got, "|") != x.want {
			t.Errorf("%s %s sends\n%s\nwant\n%s", x.call, x.line, strings.Join(got, "|"), x.want)
		}
	}
}

// The list of subscriptions can be asked for each way, and says what receivers of alerts follow.
func TestWaysOfSubscriptions(t *testing.T) {
	_, help, _ := runCLI(t, nil, "", "subscription", "list", "--help")
	_, list, _ := strings.Cut(help, "only this way: ")
	list, _, _ = strings.Cut(list, "\n")
	ways := strings.Split(list, ", ")
	for _, w := range registry.Ways {
		if !slices.Contains(ways, string(w)) {
			t.Errorf("--way names %s, and not %s", list, w)
		}
	}
	if len(ways) != len(registry.Ways) {
		t.Errorf("--way names %s", list)
	}
	if got := followed(&api.Subscription{Way: registry.Alerts}); got != "alert rules" {
		t.Errorf("a receiver of alerts follows %q", got)
	}
}
