package web

import (
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/docs"
)

// seen holds the (method, path, status) that the tests of this package received.
var seen = struct {
	sync.Mutex
	m map[string]bool
}{m: map[string]bool{}}

// check compares an answer with the OpenAPI document: the operation lists its status,
// and its body fits the schema.
func (w *world) check(r *http.Request, a *answer) {
	w.t.Helper()
	resources := "same-origin"
	// the client, for pages of every origin
	if a.StatusCode == 200 && strings.HasPrefix(r.URL.Path, "/freshet.") || a.StatusCode == 200 && strings.HasPrefix(r.URL.Path,
		"/freshet-rdfjs.") {
		resources = "cross-origin"
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": resources,
		"Content-Security-Policy": contentPolicy} {
		if got := a.Header.Get(name); got != want {
			w.t.Errorf("%s %s: %s is %q", r.Method, r.URL.Path, name, got)
		}
	}
	path, item := w.operation(r)
	if item == nil {
		if a.StatusCode != 404 && a.StatusCode != 405 && a.StatusCode != 421 && a.StatusCode != 204 && a.StatusCode != 403 {
			w.t.Errorf("%s %s answers %d, and the document does not know it", r.Method, r.URL.Path, a.StatusCode)
		}
		return
	}
	method := strings.ToLower(r.Method)
	if method == "head" {
		method = "get"
	}
	status := fmt.Sprint(a.StatusCode)
	seen.Lock()
	seen.m[method+" "+path+" "+status] = true
	seen.Unlock()
	if everywhere[a.StatusCode] && child(item, method, "responses", status) == nil {
		w.body(r, a, "/components/schemas/Problem")
		return
	}
	pointer := "/paths/" + escape(path) + "/" + method + "/responses/" + status
	resp := child(item, method, "responses", status)
	if ref, ok := child(resp, "$ref").(string); ok {
		pointer = strings.TrimPrefix(ref, "#")
		resp = child(w.document(), strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	if resp == nil {
		w.t.Errorf("%s %s: the document does not list status %s", method, path, status)
		return
	}
	content, _ := child(resp, "content").(map[string]any)
	if content == nil || r.Method == "HEAD" || a.StatusCode == 304 {
		if len(a.body) > 0 && path != "/v1/live" && path != "/sepa/subscribe" {
			w.t.Errorf("%s %s %s has a body: %.200s", r.Method, path, status, a.body)
		}
		return
	}
	typ, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
	if content[typ] == nil {
		w.t.Errorf("%s %s %s: the document does not list %q", method, path, status, typ)
		return
	}
	if strings.HasSuffix(typ, "json") {
		w.body(r, a, pointer+"/content/"+escape(typ)+"/schema")
	}
}

// everywhere lists the statuses that any call may answer with.
var everywhere = map[int]bool{400: true, 405: true, 421: true, 500: true, 503: true, 403: true, 408: true, 413: true, 429: true, 507: true}

func (w *world) body(r *http.Request, a *answer, schema string) {
	w.t.Helper()
	if r.Method == "HEAD" {
		return
	}
	if a.StatusCode >= 400 && strings.HasSuffix(a.Header.Get("Content-Type"), "problem+json") {
		slug := strings.TrimPrefix(a.string("type"), "/problems/")
		if k, ok := problemKinds[registry.Kind(slug)]; !ok || k.status != a.StatusCode || a.string("title") == "" {
			w.t.Errorf("%s %s: the problem %q is not explained, or not as %d", r.Method, r.URL.Path, slug, a.StatusCode)
		}
	}
	d, err := openDocument()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := d.At(schema, a.body); err != nil {
		w.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
}

func (w *world) document() map[string]any {
	d, err := openDocument()
	if err != nil {
		w.t.Fatal(err)
	}
	return d.Tree
}

// operation finds the path item that a request's path belongs to.
func (w *world) operation(r *http.Request) (string, any) {
	paths := w.document()["paths"].(map[string]any)
	best := ""
	for p := range paths {
		if matches(p, r.URL.Path) && (best == "" || strings.Count(p, "{") < strings.Count(best, "{")) {
			best = p
		}
	}
	item := paths[best]
	m := strings.ToLower(r.Method)
	if m == "head" {
		m = "get"
	}
	if child(item, m) == nil {
		return best, nil
	}
	return best, item
}

func matches(pattern, path string) bool {
	p, s := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(p, s, func(a, b string) bool { return a == b || strings.HasPrefix(a, "{") && b != "" })
}

func child(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

func escape(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D", "+", "%2B").Replace(s)
}

// The document and the route table contain the same calls.
func TestDocumentKnowsEveryRoute(t *testing.T) {
	w := newWorld(t)
	paths := w.document()["paths"].(map[string]any)
	s := &server{Config: w.config}
	routes := map[string]bool{}
	for _, r := range s.table() {
		m := strings.ToLower(r.method)
		routes[m+" "+r.path] = true
		op := child(paths[r.path], m)
		if op == nil {
			t.Errorf("%s %s is not in the document", m, r.path)
			continue
		}
		role, text := string(r.need), fmt.Sprint(child(op, "description"))
		if role != "" && r.path != "/v1/queries/{id}/results" && !strings.Contains(r.path, "/results.") && !strings.Contains(text,
			"Role: "+role) {
			t.Errorf("%s %s needs %s, the document says %q", m, r.path, role, text)
		}
		if _, open := child(op, "security").([]any); open != (role == "") {
			t.Errorf("%s %s: the document disagrees on whether it is open", m, r.path)
		}
	}
	for p, item := range paths {
		for m := range item.(map[string]any) {
			if m != "parameters" && !routes[m+" "+p] {
				t.Errorf("%s %s is not served", m, p)
			}
		}
	}
}

// The document describes every metric, and subscriptions by every way.
func TestDocumentKnowsEveryMetric(t *testing.T) {
	text, known := string(docs.OpenAPI), 0
	for _, root := range []string{".", "../cmd"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			code, err := os.ReadFile(path)
			for _, m := range regexp.MustCompile(`"(freshet_[a-z_]+)"`).FindAllSubmatch(code, -1) {
				if known++; !regexp.MustCompile(string(m[1]) + `\b`).MatchString(text) {
					t.Errorf("%s has the metric %s, which the document does not describe", path, m[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if known < 60 {
		t.Errorf("only %d metrics were found", known)
	}
	_, ways, _ := strings.Cut(text, "`freshet_subscriptions{way,state}`")
	ways, _, _ = strings.Cut(ways, "and state")
	for _, way := range registry.Ways {
		if !strings.Contains(ways, "`"+string(way)+"`") {
			t.Errorf("freshet_subscriptions has the way %s, which the document does not list", way)
		}
	}
}

// Every status that the document lists was received. This test runs after the others. All run
// in a time zone in which a time that is not in UTC differs from the document.
func TestMain(m *testing.M) {
	time.Local = time.FixedZone("half past", int(5*time.Hour+30*time.Minute)/int(time.Second))
	code := m.Run()
	if code == 0 && !partialRun() {
		code = unmet()
	}
	os.Exit(code)
}

// partialRun reports whether -run selects tests. -skip leaves out long tests only, and none
// is in this package.
func partialRun() bool {
	return slices.ContainsFunc([]string{"run", "fuzz", "bench", "list"}, func(name string) bool {
		return flag.Lookup("test."+name).Value.String() != ""
	})
}

func unmet() int {
	d, err := openDocument()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	code := 0
	for p, item := range d.Tree["paths"].(map[string]any) {
		for m := range item.(map[string]any) {
			if m == "parameters" {
				continue
			}
			for status := range child(item, m, "responses").(map[string]any) {
				if status != "101" && !seen.m[m+" "+p+" "+status] {
					fmt.Printf("no test met %s %s %s\n", m, p, status)
					code = 1
				}
			}
		}
	}
	return code
}
