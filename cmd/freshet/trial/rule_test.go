// Tests of alert rules on the command line, and of rules on a server that is killed.

package trial

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/registry"
)

// The settings limits.rules and limits.token_rules bound the number of rules, and 0 is no limit.
func TestRuleLimits(t *testing.T) {
	for limits, want := range map[string]string{"rules: 1, token_rules: 0": "limits.rules", "rules: 0, token_rules: 1": "limits.token_rules"} {
		w := newTown(t, "limits: {"+limits+"}\n")
		w.must(t, "ASK {}", "query", "add", "--endpoint", "city", "--name", "asked", "-")
		w.must(t, "", "rule", "add", "a", "--query", "asked", "--when", "changed")
		if code, _, stderr := runCLI(t, w.Env, "", "rule", "add", "b", "--query", "asked", "--when", "changed"); code == 0 ||
			!strings.Contains(stderr, want) {
			t.Errorf("with %s: exit code %d, %s", limits, code, stderr)
		}
	}
}

// The settings limits.rule_rows and limits.rule_receivers bound the rows and the receivers of a
// rule. A rule with too many rows goes on after a start with a higher limit.
func TestRuleSizes(t *testing.T) {
	e := toEdit(t, answers(t, "Server", "one", twoCities))
	limit := func(limits string) {
		e.yaml = strings.SplitAfter(e.yaml, "\n")[0] + "limits: {" + limits + "}\nmail: {server: \"127.0.0.1:9\", from: " +
			"a@x.example, recipients: [x.example]}\n"
		e.crash(t)
	}
	limit("rule_rows: 1, rule_receivers: 1")
	e.set(t, "slot=@every 1h")
	e.must(t, "SELECT ?city ?bikes { ?city <http://example.org/bikes> ?bikes }", "query", "add", "--name", "bikes", "-")
	e.tick(t)
	add := []string{"rule", "add", "many", "--query", "bikes", "--when", "?bikes > 1", "--email", "a@x.example", "--email", "b@x.example"}
	if code, _, stderr := runCLI(t, e.Env, "", add...); code != cli.ExitUsage || !strings.Contains(stderr,
		"at most 1 receivers (limits.rule_receivers)") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	e.must(t, "", add[:len(add)-4]...)
	clitest.Eventually(t, "the rule reports too many rows", func() bool {
		return strings.Contains(e.must(t, "", "rule", "show", "many"), "more than 1 rows (limits.rule_rows)")
	})
	limit("rule_rows: 0, rule_receivers: 0")
	clitest.Eventually(t, "both rows fire", func() bool {
		return strings.Count(e.must(t, "", "rule", "show", "many"), " firing ") >= 2
	})
	add[2] = "mailed"
	e.must(t, "", add...)
}

// quietOfJSON returns when the receivers of a rule that a command prints are told something, by their kinds.
func quietOfJSON(out string) (map[string]registry.Quiet, error) {
	var v struct{ To []json.RawMessage }
	err := json.Unmarshal([]byte(out), &v)
	list := map[string]registry.Quiet{}
	for _, to := range v.To {
		var q registry.Quiet
		var kinds map[string]any
		err = errors.Join(err, json.Unmarshal(to, &q), json.Unmarshal(to, &kinds))
		for _, kind := range []string{"text", "webhook", "alertmanager"} {
			if kinds[kind] != nil {
				list[kind] = q
			}
		}
	}
	return list, err
}

// The commands of rules beyond those of the how-to: what they refuse, and JSON.
func TestRuleCommands(t *testing.T) {
	w := newTown(t, "websub: {allow_callback_networks: [127.0.0.0/8]}\n")
	w.must(t, "SELECT ?s ?v { ?s <http://x/v> ?v }", "query", "add", "--endpoint", "city", "--name", "values", "-")
	for args, want := range map[string]string{
		"rule add":                                          "NAME is missing",
		"rule add r":                                        "query is missing",
		"rule add r --query values --when v>1":              "begins with neither a variable nor rows",
		"rule add r --query nothing --when ?v>1":            "register it first",
		"rule add r --query values --when ?w>1":             "there is ?s, ?v",
		"rule add r --query values --when ?v>1 --label x":   "NAME=TEXT",
		"rule add r --query values --when ?v>1 --for soon":  "is not a duration",
		"rule add r --query values --when ?v>1 --webhook x": "only http and https",
		"rule list --status well":                           "status is one of",
	} {
		exit := cli.ExitUsage
		if want == "register it first" {
			exit = cli.ExitNotFound
		}
		if code, out, stderr := runCLI(t, w.Env, "", strings.Fields(args)...); code != exit || out != "" ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q, %s, want %d, %q", args, code, out, stderr, exit, want)
		}
	}
	if code, _, stderr := runCLI(t, w.Env, "", "rule", "try", "--query", "values", "--when", "?v > 1"); code == 0 ||
		!strings.Contains(stderr, "no execution has been complete") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	var v struct {
		ID, Status string
		Labels     map[string]string
		To         []struct{ Webhook, Secret string }
	}
	out := w.must(t, "", "rule", "add", "r", "--query", "values", "--when", "?v > 1", "--label", "of=?s", "--webhook",
		"http://127.0.0.1:9/", "--json")
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Status != "waiting" || v.Labels["of"] != "?s" || len(v.To) != 1 ||
		v.To[0].Secret == "" {
		t.Errorf("%v: %s", err, out)
	}
	if out := w.must(t, "", "rule", "show", v.ID); !strings.Contains(out, "waiting: the query has no complete result yet") {
		t.Errorf("%s", out)
	}
	quiet := "--digest 1h --zone Europe/Berlin --quiet 22:00-07:00 --most 6 --repeat 4h"
	out = w.must(t, "", strings.Fields("rule add told --query values --when changed --notify text+http://127.0.0.1:9/ "+
		"--webhook http://127.0.0.1:9/2 --alertmanager http://127.0.0.1:9 --json "+quiet)...)
	list, err := quietOfJSON(out)
	all := registry.Quiet{Digest: "1h", Zone: "Europe/Berlin", Hours: "22:00-07:00", Most: "6", Repeat: "4h"}
	if err != nil || len(list) != 3 || list["text"] != all || list["webhook"] != (registry.Quiet{Repeat: "4h"}) ||
		list["alertmanager"] != (registry.Quiet{}) {
		t.Errorf("%v: %v of %s", err, list, out)
	}
	for args, want := range map[string]string{
		"rule add x --query values --when changed --digest 1h":                            "--digest: give it with --notify",
		"rule add x --query values --when changed --most 2 --webhook http://127.0.0.1:9/": "--most: give it with --notify",
		"rule edit told --repeat 4h":                                                      "--repeat: give it with --notify",
		"rule edit r":                                                                     "nothing to change",
		"rule edit r --for soon":                                                          "is not a duration",
		"rule edit r --no-receivers --email a@example.org":                                "not both",
		"rule edit r --query nothing":                                                     "register it first",
		"rule edit r --when ?w>1":                                                         "there is ?s, ?v",
	} {
		exit := cli.ExitUsage
		if want == "register it first" {
			exit = cli.ExitNotFound
		}
		if code, out, stderr := runCLI(t, w.Env, "", strings.Fields(args)...); code != exit || out != "" ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q, %s, want %d, %q", args, code, out, stderr, exit, want)
		}
	}
	if out := w.must(t, "", "rule", "edit", "r", "--for", "10m", "--summary", "?s", "--no-receivers"); strings.TrimSpace(out) != v.ID {
		t.Errorf("%s", out)
	}
	w.must(t, "", "rule", "edit", "r", "--summary", "", "--name", "q")
	w.must(t, "", "rule", "pause", "q")
	if out := w.must(t, "", "rule", "show", "q"); !strings.Contains(out, "?v > 1, for 10m") || !strings.Contains(out,
		"paused: it is not evaluated") || strings.Contains(out, "to  ") {
		t.Errorf("%s", out)
	}
	w.must(t, "", "rule", "resume", "q")
	w.must(t, "", "rule", "edit", "q", "--name", "r", "--for", "")
	if out := w.must(t, "", "rule", "show", "r"); strings.Contains(out, "10m") || !strings.Contains(out, "waiting: ") {
		t.Errorf("%s", out)
	}
	if out := w.must(t, "", "rule", "rm", "r", "--json"); !strings.Contains(out, `"r"`) {
		t.Errorf("%s", out)
	}
}

// A server that is killed at any moment, with a webhook that refuses many messages, sends each
// alert and each end of one, and computes none twice: the ids of the messages are as many as a
// trial of the same rule over the whole log says.
func TestRulesSurviveKills(t *testing.T) {
	clitest.NeedEngine(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	type message struct{ state, alert, body string }
	var mu sync.Mutex
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rnd.IntN(n)
	}
	got, refused, repeated, row := map[string]message{}, 0, 0, 0
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the server was killed while it sent
		}
		var m struct {
			Data struct {
				State, Alert string
				Seq          uint64
			}
		}
		if err := json.Unmarshal(body, &m); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		refuse := draw(4) == 0
		mu.Lock()
		defer mu.Unlock()
		// A refusal delays all messages by 5 s, the next one in a row by 10 s. So there are few, but at least one.
		if refuse = refuse || refused == 0 && len(got) == 2; refuse && row < 2 && refused < 5 {
			refused++
			row++
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		row = 0
		id, now := r.Header.Get("Webhook-Id"), message{m.Data.State, fmt.Sprint(m.Data.Alert, " at ", m.Data.Seq), string(body)}
		if before, again := got[id]; again {
			if repeated++; before != now {
				t.Errorf("message %s is sent again with another content:\n%s\n%s", id, before.body, body)
			}
		}
		got[id] = now
	}))
	t.Cleanup(hook.Close)
	bin := binary(t)
	engine := clitest.Start(t, bin, "sparql", "--listen", "127.0.0.1:0")
	w := town{clitest.Town{Env: map[string]string{}, Endpoint: engine.Url}}
	u := &restartingServer{t: t, bin: bin, addr: clitest.FreeAddr(t), data: t.TempDir(), yaml: "endpoints: [{name: city, url: \"" +
		engine.Url + "\", slot: never, budget: 1h}]\nwebsub: {allow_callback_networks: [127.0.0.0/8]}\n"}
	u.start()
	defer func() { u.p.Kill() }()
	var q struct{ ID string }
	post := func(path string, in, out any) error {
		b, err := u.call(t.Context(), http.MethodPost, path, in)
		if err == nil && out != nil {
			err = json.Unmarshal(b, out)
		}
		return err
	}
	if err := post("/v1/queries", map[string]any{"endpoint": "city", "query": "SELECT ?s ?v { ?s <http://x/v> ?v }"}, &q); err != nil {
		t.Fatal(err)
	}
	rule := map[string]any{"name": "high", "query": q.ID, "when": "?v > 4", "to": []any{map[string]any{"webhook": hook.URL}}}
	if err := post("/v1/rules", rule, nil); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		s := draw(6)
		w.Update(t, fmt.Sprintf("PREFIX : <http://x/> DELETE WHERE { :s%d :v ?v } ; INSERT DATA { :s%d :v %d }", s, s, draw(9)))
		pause := time.Duration(draw(20)) * time.Millisecond
		if draw(4) > 0 {
			if err := post("/v1/endpoints/city/tick", nil, nil); err != nil {
				t.Fatal(err)
			}
			continue
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = post("/v1/endpoints/city/tick", nil, nil) // the server is killed meanwhile
		}()
		time.Sleep(pause)
		u.kill()
		<-over
	}
	if err := post("/v1/endpoints/city/tick", nil, nil); err != nil {
		t.Fatal(err)
	}
	var trial struct{ Fired, Resolved, Changes int }
	if err := post("/v1/rules/try", rule, &trial); err != nil {
		t.Fatal(err)
	}
	var v struct {
		Seq, Fired int
		To         []struct{ Waiting int }
	}
	clitest.Eventually(t, "the delivery of all messages", func() bool {
		if err := u.get(t.Context(), "/v1/rules/high", &v); err != nil {
			t.Fatal(err)
		}
		return v.Seq == trial.Changes && v.To[0].Waiting == 0
	})
	mu.Lock()
	defer mu.Unlock()
	count, moments := map[string]int{}, map[message]bool{}
	for _, m := range got {
		count[m.state]++
		moments[message{state: m.state, alert: m.alert}] = true
	}
	if count["firing"] != trial.Fired || count["resolved"] != trial.Resolved || v.Fired != trial.Fired || len(moments) != len(got) {
		t.Errorf("%v messages of %d moments, rule fired %d times, the log says %+v", count, len(moments), v.Fired, trial)
	}
	if u.kills < 2 || trial.Fired < 3 || refused == 0 {
		t.Errorf("%d kills, %d refused messages and %+v are too few to show anything", u.kills, refused, trial)
	}
	t.Logf("%d kills, %d refused, %d sent again, %+v", u.kills, refused, repeated, trial)
}
