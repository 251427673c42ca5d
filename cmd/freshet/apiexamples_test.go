package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/web/docs/docstest"
)

// An apiStep is a call whose example the reference shows.
type apiStep struct {
	operation string
	first     string // commands that come before it, which readers do not see
	// known are the ids that the reference shows in place of those in the answer.
	known []shownID
}

// A shownID is the first id of a kind in an answer, and what the reference shows for it.
type shownID struct{ found, shown string }

const (
	hookID        = "wh_dq3n8m5kr2v7c1p9s4t6"
	hubID         = "ws_8h2k5m9q3r7t1v4x6z0b"
	secretOfToken = "Atdc59TBVt6hYp7vs5g1m5IWP7mCKhYYmCjcnV1OfpM"
	letterID      = "msg_5Q2W7E3R9T4Y6U1I8O0PASDFGH"
)

// apiStory is the order in which the examples are made, so that each finds what it is about.
var apiStory = []apiStep{
	{operation: "index"}, {operation: "readyz"}, {operation: "listPacks"}, {operation: "explainProblem"},
	{operation: "createEndpoint"}, {operation: "checkEndpoint"}, {operation: "listEndpoints"}, {operation: "showEndpoint"},
	{operation: "patchEndpoint"},
	{operation: "validateQuery"}, {operation: "registerQuery"}, {operation: "tickEndpoint"},
	{operation: "showQuery"}, {operation: "patchQuery"}, {operation: "listQueries"}, {operation: "explainQuery"}, {operation: "results"},
	{operation: "createWebhook", known: []shownID{{`\bwh_\w+`, hookID}}},
	{operation: "listWebhooks", first: `until curl http://127.0.0.1:8080/v1/webhooks | grep -q last_delivery; do sleep 0.1; done`},
	{operation: "hintEndpoint", first: `update 'DELETE { ?g :free ?n } INSERT { ?g :free 2 } WHERE { ?g :free ?n }'`},
	{operation: "queryChanges", first: `until curl http://127.0.0.1:8080/v1/queries/free | grep -q '"seq":2'; do curl -X POST ` +
		`http://127.0.0.1:8080/v1/endpoints/city/tick; sleep 0.1; done`}, {operation: "latestChange"}, {operation: "agent"},
	{operation: "netChange"}, {operation: "timeMap"}, {operation: "queryFeed"},
	{operation: "allChanges"}, {operation: "allFeed"},
	{operation: "listDeadLetters", first: `until curl http://127.0.0.1:8080/v1/dead-letters | grep -q msg_; do sleep 0.1; done`,
		known: []shownID{{`\bmsg_\w+`, letterID}}},
	{operation: "showWebhook", first: `freshet letter list | grep "` + hookID + ` *` + letterID + ` .*/orders.* 422$"`},
	{operation: "patchWebhook"}, {operation: "rotateWebhook"}, {operation: "resendDeadLetter"}, {operation: "replayWebhook",
		first: `freshet letter resend ` + hookID + ` ` + letterID}, {operation: "dropDeadLetter"},
	{operation: "listSubscriptions", first: `! freshet letter drop ` + hookID + ` ` + letterID}, {operation: "showSubscription"},
	{operation: "pauseSubscription"}, {operation: "resumeSubscription"}, {operation: "dropWebhook"},
	{operation: "testReceiver"}, {operation: "createReceiver"},
	{operation: "hub"},
	{operation: "dropSubscription", first: `until curl 'http://127.0.0.1:8080/v1/subscriptions?way=websub&state=active' | grep ` +
		`-o 'ws_\w*'; do sleep 0.1; done`, known: []shownID{{`\bws_\w+`, hubID}}},
	{operation: "refreshQuery"}, {operation: "pauseQuery"}, {operation: "resumeQuery"},
	{operation: "tryRule"}, {operation: "createRule"}, {operation: "listRules"}, {operation: "showRule"},
	{operation: "listRuleAlerts"}, {operation: "patchRule"}, {operation: "pauseRule"},
	{operation: "resumeRule", first: `until curl http://127.0.0.1:8080/v1/rules/few | grep -E '"sent": ?2'; do sleep 0.1; done`},
	{operation: "removeRule"},
	{operation: "createProfile"}, {operation: "listProfiles"}, {operation: "showProfile"}, {operation: "patchProfile"},
	{operation: "listCaptures"}, {operation: "deleteProfile"},
	{operation: "validateWatch"}, {operation: "registerWatch"},
	{operation: "listWatches", first: `curl -X POST http://127.0.0.1:8080/v1/endpoints/city/tick`},
	{operation: "showWatch"}, {operation: "watchChanges"}, {operation: "watchFeed"},
	{operation: "listSlots"}, {operation: "listTemplates"}, {operation: "releaseWatch"}, {operation: "dueQueries"}, {operation: "addShadow"},
	{operation: "showShadows"}, {operation: "dropShadow"},
	{operation: "pauseEndpoint"}, {operation: "resumeEndpoint"},
	{operation: "revertEndpoint", first: `curl -X PATCH http://127.0.0.1:8080/v1/endpoints/archive -H 'Content-Type: ` +
		`application/merge-patch+json' --data '{"budget": "9s"}'`},
	{operation: "metrics"}, {operation: "metrics.results"}, {operation: "status"}, {operation: "live"}, {operation: "sepa"},
	{operation: "backup"},
	{operation: "listFeeds", first: `curl -X PATCH http://127.0.0.1:8080/v1/endpoints/city -H 'Content-Type: ` +
		`application/merge-patch+json' --data '{"feed": "store"}'`}, {operation: "showFeed"}, {operation: "sendDeltas"},
	{operation: "queryStream"}, {operation: "queryPatch", first: `curl http://127.0.0.1:8080/v1/queries -H 'Content-Type: ` +
		`application/json' --data '{"endpoint": "city", "name": "graph", "query": "CONSTRUCT WHERE { ?garage <http://example.org/free> ?n }"}'
curl -X POST http://127.0.0.1:8080/v1/endpoints/city/tick`},
	{operation: "releaseQuery"}, {operation: "deleteEndpoint"},
	{operation: "cluster"}, {operation: "cluster.drain"},
	{operation: "createToken", known: []shownID{{`[A-Za-z0-9_-]{43}`, secretOfToken}}}, {operation: "listTokens"}, {operation: "deleteToken"},
}

// The reference has a request and an answer for each operation of the API. The requests are sent as they
// are printed, to a real server, and the answers are compared.
func TestAPIExamples(t *testing.T) {
	clitest.NeedEngine(t)
	d := readAPIDocument(t)
	var story []string
	for _, s := range apiStory {
		story = append(story, s.operation)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(d.examples)), slices.Sorted(slices.Values(story))); diff != "" {
		t.Fatalf("each operation of openapi.yaml needs an example, and a place in the story (-openapi +story):\n%s", diff)
	}
	if *update {
		defer d.write(t)
	}
	w := newAPIWorld(t)
	for _, s := range apiStory {
		if s.operation == "cluster" {
			w.cluster()
		}
		w.show(s, d.examples[s.operation])
	}
}

// An apiExample is a request and its answer, as the reference shows them.
type apiExample struct{ request, answer string }

// An apiDocument is openapi.yaml with the examples in it.
type apiDocument struct {
	text     string
	examples map[string]*apiExample // by operation
}

const apiFile = docsDir + "/openapi.yaml"

var apiOperation = regexp.MustCompile(`(?m)^ {6}operationId: (\S+)\n(?: {6}x-example:\n {8}request: \|\n((?: ` +
	`{10}.*\n|\n)+?) {8}answer: \|\n((?: {10}.*\n|\n)+))?`)

func readAPIDocument(t *testing.T) *apiDocument {
	text, err := os.ReadFile(apiFile)
	if err != nil {
		t.Fatal(err)
	}
	d := &apiDocument{text: string(text), examples: map[string]*apiExample{}}
	inner := regexp.MustCompile(`(?m)^ {10}`)
	for _, m := range apiOperation.FindAllStringSubmatch(d.text, -1) {
		if m[2] == "" {
			t.Errorf("%s has no x-example with a request and an answer", m[1])
		}
		d.examples[m[1]] = &apiExample{inner.ReplaceAllString(m[2], ""), inner.ReplaceAllString(m[3], "")}
	}
	return d
}

func (d *apiDocument) write(t *testing.T) {
	block := func(text string) string {
		return strings.ReplaceAll("          "+strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n          ")+"\n", "          \n", "\n")
	}
	text := apiOperation.ReplaceAllStringFunc(d.text, func(part string) string {
		id := apiOperation.FindStringSubmatch(part)[1]
		x := d.examples[id]
		return "      operationId: " + id + "\n      x-example:\n        request: |\n" + block(x.request) + "        answer: |\n" +
			block(x.answer)
	})
	if err := os.WriteFile(apiFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// An apiWorld is what the examples are made with: an endpoint, a server, a receiver that refuses changes,
// and a cluster.
type apiWorld struct {
	*reader
	patience time.Duration     // of each command
	ids      *strings.Replacer // shown → real
	was      []string          // pairs of real and shown
}

func newAPIWorld(t *testing.T) *apiWorld {
	w := &apiWorld{reader: newReader(t), patience: 3 * time.Minute, ids: strings.NewReplacer()}
	w.env = append(w.environment(false), "HOME="+w.dir, "CURL_HOME="+w.dir)
	w.put(".curlrc", "silent\nshow-error\nwrite-out = \"%{stderr}%{http_code}\\n\"\n")
	sparql := clitest.Start(t, binary(t), "sparql", "--listen", w.move("127.0.0.1:3030"))
	w.receiver(w.move("127.0.0.1:9001"))
	w.run(`update 'INSERT DATA { :north :free 3 }'`)
	clitest.Serve(t, binary(t), w.move("127.0.0.1:8080"), filepath.Join(w.dir, "data"), fmt.Sprintf(
		"endpoints: [{name: archive, url: %q, slot: never}]\nfeeds: [{name: store, kind: deltas}]\nwebsub: "+
			"{allow_callback_networks: [127.0.0.0/8]}\n", sparql.Url))
	return w
}

func (w *apiWorld) put(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// receiver accepts everything but changes. It takes a while for what is resolved, so that the answer to the pause
// of a rule comes before.
func (w *apiWorld) receiver(addr string) {
	w.t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		w.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if challenge := r.FormValue("hub.challenge"); challenge != "" {
			_, _ = io.WriteString(rw, challenge)
		} else if bytes.Contains(b, []byte("query.changed")) {
			http.Error(rw, "no such order", http.StatusUnprocessableEntity)
		} else if bytes.Contains(b, []byte("alert.resolved")) {
			time.Sleep(500 * time.Millisecond)
		}
	}))
	server.Listener.Close()
	server.Listener = l
	server.Start()
	w.t.Cleanup(server.Close)
}

// cluster starts three nodes, the first of them at 127.0.0.1:8081.
func (w *apiWorld) cluster() {
	w.t.Helper()
	w.put("secret", strings.Repeat("c2VjcmV0", 8)+"\n")
	apis := []string{w.move("127.0.0.1:8081"), w.move("127.0.0.1:8082"), w.move("127.0.0.1:9002")}
	for i, api := range apis {
		name := fmt.Sprint("n", i+1)
		w.put(name+".yaml", w.move(fmt.Sprintf("cluster: {name: demo, node: %s, listen: 127.0.0.1:500%d, peers: {n1: "+
			"\"127.0.0.1:5001\", n2: \"127.0.0.1:5002\", n3: \"127.0.0.1:5003\"}, token_file: %q}\n", name, i+1, filepath.Join(w.dir, "secret"))))
		clitest.Launch(w.t, binary(w.t), "serve", "--config", filepath.Join(w.dir, name+".yaml"), "--listen", api, "--data",
			filepath.Join(w.dir, name))
	}
	w.run(`for node in 127.0.0.1:8081 127.0.0.1:8082 127.0.0.1:9002; do until curl -f http://$node/readyz; do sleep 0.1; done; done
until [ $(curl http://127.0.0.1:8081/v1/cluster | grep -o '"state":"ready"' | wc -l) = 3 ]; do sleep 0.1; done`)
}

// run types commands and returns what they print, and on standard error.
func (w *apiWorld) run(script string) (out, status string) {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(w.ctx, w.patience)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", w.move("update() { curl http://127.0.0.1:3030/sparql --data-urlencode "+
		"\"update=PREFIX : <http://example.org/> $1\"; }\n")+w.move(w.ids.Replace(script)))
	c.Dir, c.Env, c.Stdout, c.Stderr = w.dir, w.env, &stdout, &stderr
	if err := c.Run(); err != nil && !strings.Contains(script, "--max-time") {
		w.t.Fatalf("%s: %v\n%s\n%s", script, err, &stdout, &stderr)
	}
	return stdout.String(), strings.TrimSpace(stderr.String())
}

// show sends the request of an example and compares the answer.
func (w *apiWorld) show(s apiStep, x *apiExample) {
	w.t.Helper()
	if s.first != "" {
		out, _ := w.run(s.first)
		w.learn(s, out)
	}
	out, status := w.run(x.request)
	w.learn(s, out)
	got := w.answer(out, status)
	if docstest.Shows(oneLine(x.answer), oneLine(got)) {
		return
	}
	if *update {
		x.answer = firstPart(got)
		return
	}
	w.t.Errorf("the answer of %s differs from its example in openapi.yaml (-example +answer); the flag -update writes it there\n%s",
		s.operation, cmp.Diff(docstest.Mask(x.answer), docstest.Mask(got)))
}

// learn finds the ids that the reference shows in another way.
func (w *apiWorld) learn(s apiStep, out string) {
	for _, id := range s.known {
		if real := regexp.MustCompile(id.found).FindString(out); real != "" && !slices.Contains(w.was, id.shown) {
			w.was = append(w.was, real, id.shown)
		}
	}
	var shown []string
	for i := 0; i < len(w.was); i += 2 {
		shown = append(shown, w.was[i+1], w.was[i])
	}
	w.ids = strings.NewReplacer(shown...)
}

// answer writes an answer as the reference shows it: its status, unless it is 200, and its body, JSON with
// line breaks.
func (w *apiWorld) answer(out, status string) string {
	for page, free := range w.ports {
		out = strings.ReplaceAll(out, "127.0.0.1:"+free, "127.0.0.1:"+page)
	}
	out = strings.NewReplacer(w.was...).Replace(strings.ReplaceAll(out, "\r\n", "\n"))
	if v, err := decodeOrdered(out); err == nil {
		out = v.text("", 100) + "\n"
	}
	if code, err := strconv.Atoi(status); err == nil && code != http.StatusOK && !strings.HasPrefix(out, "HTTP/") {
		out = fmt.Sprintf("%d %s\n%s", code, http.StatusText(code), out)
	}
	return out
}

// firstPart leaves out what is beyond the size of an example.
func firstPart(answer string) string {
	const most = 800
	if len(answer) <= most {
		return answer
	}
	return answer[:strings.LastIndexByte(answer[:most], '\n')+1] + "…\n"
}

var (
	blanks   = regexp.MustCompile(`\s+`)
	measured = regexp.MustCompile(`("(?:\w*_seconds|bytes|dev|applied|head|lag|leases|takeovers|fenced)": ?)-?\d[\d.e+-]*|(": ` +
		`?)-?\d+\.\d+(?:e[+-]?\d+)?\b`)
	addressed = regexp.MustCompile(`(/…)[0-9a-f]{6}"`) // what is left of the secret part of an address, with the port
	epochs    = regexp.MustCompile(`"[0-9a-z]{8}(?:-\d+)?(:\d+)?"`)
)

// oneLine writes an answer so that its line breaks, which depend on the length of measured values, do not
// matter.
func oneLine(text string) string {
	text = addressed.ReplaceAllString(text, `$1<hash>"`)
	return epochs.ReplaceAllString(measured.ReplaceAllString(blanks.ReplaceAllString(text, " "), "$1$2<n>"), `"<epoch>$1"`)
}

// A jsonText is a JSON value with its members in order.
type jsonText struct {
	one     string // in one line
	open    string // { or [, "" for others
	members []string
	inner   []jsonText
}

func decodeOrdered(text string) (jsonText, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	v, err := readJSON(d)
	if err == nil && d.More() {
		err = fmt.Errorf("there is more than one value")
	}
	return v, err
}

func readJSON(d *json.Decoder) (v jsonText, err error) {
	token, err := d.Token()
	if err != nil {
		return v, err
	}
	delim, nested := token.(json.Delim)
	if !nested {
		v.one = scalar(token)
		return v, nil
	}
	v.open = delim.String()
	var parts []string
	for d.More() {
		name := ""
		if v.open == "{" {
			key, err := d.Token()
			if err != nil {
				return v, err
			}
			name = scalar(key) + ": "
		}
		x, err := readJSON(d)
		if err != nil {
			return v, err
		}
		v.members, v.inner, parts = append(v.members, name), append(v.inner, x), append(parts, name+x.one)
	}
	end, err := d.Token()
	v.one = v.open + strings.Join(parts, ", ") + fmt.Sprint(end)
	return v, err
}

func scalar(token any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(token) // a text, a number, a truth value or null
	return strings.TrimSpace(b.String())
}

// text writes a value in one line if that has room for it.
func (v jsonText) text(indent string, room int) string {
	if v.open == "" || len(indent)+len(v.one) <= room {
		return v.one
	}
	var b strings.Builder
	b.WriteString(v.open)
	for i, x := range v.inner {
		b.WriteString("\n" + indent + "  " + v.members[i] + x.text(indent+"  ", room-len(v.members[i])))
		if i < len(v.inner)-1 {
			b.WriteByte(',')
		}
	}
	return b.String() + "\n" + indent + map[string]string{"{": "}", "[": "]"}[v.open]
}
