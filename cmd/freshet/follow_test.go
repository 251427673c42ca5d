package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
)

// A printed value collects what a command prints while it runs.
type printed struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *printed) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *printed) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// One line follows an entity: with a server of its own, and at one that runs.
func TestFollow(t *testing.T) {
	w := newTown(t, "")
	const wd, wdt = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
	label := "<http://www.w3.org/2000/01/rdf-schema#label>"
	w.Update(t, `INSERT DATA { <`+wd+`Q937> <`+wdt+`P19> <`+wd+`Q3012> ; `+label+` "Albert Einstein"@en ; <http://schema.org/version> 1 .
		<`+wd+`P19> `+label+` "place of birth"@en . <`+wd+`Q3012> `+label+` "Ulm"@en . <`+wd+`Q4120> `+label+` "Neu-Ulm"@mul }`)
	for name, more := range map[string][]string{
		"own server":     {"--listen", "127.0.0.1:0"},
		"running server": {"--server", w.Env["FRESHET_SERVER"]},
	} {
		t.Run(name, func(t *testing.T) {
			w.Update(t, `DELETE WHERE { <`+wd+`Q937> <`+wdt+`P19> ?o } ; INSERT DATA { <`+wd+`Q937> <`+wdt+`P19> <`+wd+`Q3012> }`)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var out, stderr printed
			ended := make(chan int, 1)
			args := append([]string{"follow", "https://www.wikidata.org/entity/Q937", "--url", w.Endpoint, "--set", "slot=@every 1s",
				"--set", "budget=900ms", "--set", "min_gap=0s"}, more...)
			go func() {
				ended <- runLine(ctx, args, &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &stderr,
					Getenv: func(string) string { return "" }})
			}()
			clitest.Eventually(t, "the first result", func() bool {
				return strings.Contains(out.String(), "1 property now: place of birth: Ulm\n") || len(ended) > 0
			})
			w.Update(t, `DELETE DATA { <`+wd+`Q937> <`+wdt+`P19> <`+wd+`Q3012> } ; INSERT DATA { <`+wd+`Q937> <`+wdt+`P19> <`+wd+`Q4120> }`)
			clitest.Eventually(t, "the change", func() bool { return strings.Contains(out.String(), "→") || len(ended) > 0 })
			stop()
			if code := <-ended; code != cli.ExitOK || !strings.Contains(out.String(), " place of birth: Ulm → Neu-Ulm\n") {
				t.Errorf("exit code %d\n%s%s", code, out.String(), stderr.String())
			}
		})
	}
	a := &remote{server: w.Env["FRESHET_SERVER"], w: &cli.Env{Getenv: func(string) string { return "" }}}
	var e struct {
		URL         string   `json:"url"`
		OwnServices []string `json:"own_services"`
	}
	if err := a.do(t.Context(), http.MethodGet, "/v1/endpoints/wikidata", nil, &e); err != nil || e.URL != w.Endpoint ||
		len(e.OwnServices) == 0 {
		t.Errorf("the endpoint of the pack is %+v, %v", e, err)
	}
	for _, iri := range []string{"Q937", "http://x.example/a"} {
		url := "http://127.0.0.1:1/another"
		if iri != "Q937" {
			if err := a.do(t.Context(), http.MethodPost, "/v1/endpoints", map[string]any{"name": "follow", "url": w.Endpoint}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if code, _, stderr := runCLI(t, w.Env, "", "follow", iri, "--url", url); code != cli.ExitUsage || !strings.Contains(stderr,
			"has the URL "+w.Endpoint) {
			t.Errorf("another URL for %s: exit code %d, %s", iri, code, stderr)
		}
	}
	for args, want := range map[string]string{
		"follow Douglas": "absolute IRI",
		"follow http://x.example/a --listen 127.0.0.1:0":                   "--url",
		"follow Q42 --listen 127.0.0.1:0":                                  "private network: name one with --contact",
		"follow Q42 --listen 127.0.0.1:0 --set budget":                     "KEY=VALUE",
		"follow Q42 --url http://127.0.0.1:1/ --server http://127.0.0.1:1": "no answer",
	} {
		if code, _, stderr := runCLI(t, nil, "", strings.Fields(args)...); code == cli.ExitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s, want %q", args, code, stderr, want)
		}
	}
}

// A file and a copied link are followed like an entity: at the endpoint that they name, in words.
func TestFollowLink(t *testing.T) {
	w := newTown(t, "")
	w.Update(t, `INSERT DATA { <http://x.example/north> <http://x.example/free> 3 }`)
	const query = "SELECT ?garage ?free { ?garage <http://x.example/free> ?free }"
	file := filepath.Join(t.TempDir(), "free.rq")
	if err := os.WriteFile(file, []byte("#+ summary: Free garages\n#+ endpoint: "+w.Endpoint+"\n"+query), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		link, title string
		more        []string
	}{
		"file":  {file, "“Free garages”", nil},
		"link":  {w.Endpoint + "?query=" + url.QueryEscape(query), "the query SELECT", nil},
		"query": {query, "the query SELECT", []string{"--url", w.Endpoint}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var out, stderr printed
			ended := make(chan int, 1)
			args := append([]string{"follow", c.link, "--listen", "127.0.0.1:0", "--set", "slot=@every 1s", "--set", "budget=900ms"}, c.more...)
			go func() {
				ended <- runLine(ctx, args, &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &stderr,
					Getenv: func(string) string { return "" }})
			}()
			clitest.Eventually(t, "the first result", func() bool {
				return strings.Contains(out.String(), " 1 row now: north, free 3\n") || len(ended) > 0
			})
			stop()
			if code := <-ended; code != cli.ExitOK || !strings.Contains(out.String(), "1 row now") || !strings.Contains(stderr.String(),
				"watching "+c.title) {
				t.Errorf("exit code %d\n%s%s", code, out.String(), stderr.String())
			}
		})
	}
	for args, want := range map[string]string{
		"follow none.rq":                          "there is no file none.rq",
		"follow https://w.wiki/3kD":               "open it in a browser",
		"follow ASK{?a?b?c} --listen 127.0.0.1:0": "--url",
	} {
		if code, _, stderr := runCLI(t, nil, "", strings.Fields(args)...); code != cli.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s, want %q", args, code, stderr, want)
		}
	}
}

// An entity of Wikidata is followed at an endpoint that has the feed of Wikidata.
func TestFollowUsesTheFeed(t *testing.T) {
	var posted []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"endpoints":[]}`)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		posted = append(posted, r.URL.Path+" "+string(body))
		w.WriteHeader(http.StatusForbidden)
	}))
	defer s.Close()
	code, _, stderr := runCLI(t, nil, "", "follow", "https://www.wikidata.org/entity/Q42", "--server", s.URL)
	if code == cli.ExitOK || len(posted) != 1 || !strings.HasPrefix(posted[0], "/v1/endpoints ") {
		t.Fatalf("exit code %d, %q\n%s", code, posted, stderr)
	}
	for _, want := range []string{`"name":"wikidata"`, `"feed":"wikidata"`, `"lag":"10m"`} {
		if !strings.Contains(posted[0], want) {
			t.Errorf("%s is not in %s", want, posted[0])
		}
	}
	own, err := (follower{link: mustLink(t, "https://www.wikidata.org/entity/Q42")}).atOwn().endpoint()
	if err != nil || own["feed"] != "wikidata" {
		t.Errorf("at a server of its own: %v %v", own, err)
	}
}

func mustLink(t *testing.T, text string) watch.Link {
	t.Helper()
	l, err := watch.ParseLink(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// At a running server, the endpoint of a site is the one with its URL, under any name. A server of its own
// asks the URL of the pack, however the link spells it.
func TestFollowOfSite(t *testing.T) {
	var posted []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"endpoints":[{"name":"city","url":"http://127.0.0.1:9/"},{"name":"wd",`+
				`"url":"https://query.wikidata.org/bigdata/namespace/wdq/sparql"}]}`)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		posted = append(posted, r.URL.Path+" "+string(body))
		w.WriteHeader(http.StatusForbidden)
	}))
	defer s.Close()
	if code, _, stderr := runCLI(t, nil, "", "follow", "Q42", "--server", s.URL); code == cli.ExitOK || len(posted) != 1 ||
		!strings.HasPrefix(posted[0], "/v1/watches ") || !strings.Contains(posted[0], `"endpoint":"wd"`) {
		t.Errorf("exit code %d, %q\n%s", code, posted, stderr)
	}
	for link, want := range map[string]string{
		"http://DBpedia.org:80/sparql/?query=ASK%7B%3Fa%20%3Fb%20%3Fc%7D": "https://dbpedia.org/sparql",
		"http://x.example/sparql?query=ASK%7B%3Fa%20%3Fb%20%3Fc%7D":       "http://x.example/sparql",
	} {
		l, err := watch.ParseLink(link)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := (follower{link: l}).atOwn().endpoint(); err != nil || e["url"] != want {
			t.Errorf("%s: %v %v, want %s", link, e, err, want)
		}
	}
}

// The first result and the first failure come long before the first slot. Both say when the
// endpoint is asked again.
func TestFollowAnswersAtOnce(t *testing.T) {
	w := newTown(t, "")
	const a = "http://x.example/a"
	w.Update(t, `INSERT DATA { <`+a+`> <http://x.example/p> 1, 2 ; <http://x.example/q> "here" }`)
	for name, c := range map[string]struct {
		args      []string
		out, tell string
	}{
		"own server": {[]string{"--listen", "127.0.0.1:0", "--url", w.Endpoint, "--set", "slot=@every 3h",
			"--set", "min_gap=0s"}, " 2 properties now: p: 1; q: here; …\n", " answered; it runs again at "},
		"no answer": {[]string{"--listen", "127.0.0.1:0", "--url", "http://127.0.0.1:1/sparql", "--set",
			"slot=@every 3h", "--set", "min_gap=0s"}, "", "nothing listens at the endpoint's address; it runs again at "},
		"running server, several endpoints": {[]string{"--server", w.Env["FRESHET_SERVER"], "--endpoint", "far"},
			" 2 properties now: p: 1; q: here; …\n", " answered; it runs again at "},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "running") {
				at := &remote{server: w.Env["FRESHET_SERVER"], w: &cli.Env{Getenv: func(string) string { return "" }}}
				if err := at.do(t.Context(), http.MethodPost, "/v1/endpoints", map[string]any{"name": "far", "url": w.Endpoint,
					"slot": "@every 3h", "min_gap": "0s"}, nil); err != nil {
					t.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var out, stderr printed
			ended := make(chan int, 1)
			go func() {
				ended <- runLine(ctx, append([]string{"follow", a}, c.args...), &cli.Env{Stdin: strings.NewReader(""), Stdout: &out,
					Stderr: &stderr, Getenv: func(string) string { return "" }})
			}()
			clitest.Eventually(t, "the answer", func() bool {
				return strings.Contains(out.String(), c.out) && strings.Contains(stderr.String(), c.tell) || len(ended) > 0
			})
			stop()
			if code := <-ended; code != cli.ExitOK || !strings.Contains(out.String(), c.out) || !strings.Contains(stderr.String(),
				c.tell) || strings.Count(stderr.String(), "\nasking ") != 1 {
				t.Errorf("exit code %d\n%s%s", code, out.String(), stderr.String())
			}
		})
	}
	code, _, stderr := runCLI(t, w.Env, "", "follow", "Q42", "--url", "http://public.invalid/sparql", "--contact", "mailto:you@example.org")
	if code != cli.ExitUsage || !strings.Contains(stderr, "gives its own contact") || !strings.Contains(stderr, "--listen 127.0.0.1:0") {
		t.Errorf("a server without a contact: exit code %d, %s", code, stderr)
	}
}

// A server shows no values of the query of a URL to most tokens. The endpoint is the one with the given URL nevertheless.
func TestFollowAtURLWithSecret(t *testing.T) {
	var watches int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"endpoints":[{"name":"town","url":%q}]}`, registry.MaskedURL("http://127.0.0.1:9/?key=secret"))
			return
		}
		watches++
		w.WriteHeader(http.StatusForbidden)
	}))
	defer s.Close()
	for url, want := range map[string]string{"?key=secret": "", "?token=secret": "has the URL http://127.0.0.1:9/?key=…", "": "has the URL"} {
		watches = 0
		_, _, stderr := runCLI(t, nil, "", "follow", "http://x.example/a", "--server", s.URL, "--endpoint", "town", "--url",
			"http://127.0.0.1:9/"+url)
		if !strings.Contains(stderr, want) || (watches == 1) != (want == "") {
			t.Errorf("%q: %d watches are asked for, %s", url, watches, stderr)
		}
	}
}

// At a server that runs, flags for another server or endpoint have no effect, and it says so.
func TestFollowNamesFlagsWithoutEffect(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		io.WriteString(w, `{"endpoints":[{"name":"town","url":"http://127.0.0.1:1/"}]}`)
	}))
	defer s.Close()
	for flags, want := range map[string]string{
		"--data d":                        "keeps its own data: --data is for a server of this command",
		"--set budget=5s":                 "--set is for a new one",
		"--set budget=5s --endpoint town": "--set is for a new one",
		"--set slot=5m --url http://127.0.0.1:1/ --endpoint town": "--set is for a new one",
	} {
		code, _, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": s.URL}, "", append([]string{"follow", "http://x.example/a"},
			strings.Fields(flags)...)...)
		if code != cli.ExitUsage || strings.Count(stderr, want) != 1 {
			t.Errorf("%s: exit code %d, says %q, want %q", flags, code, stderr, want)
		}
	}
}

// Without its terminal or the reader of its output, the command ends, and nothing of its
// own server is left.
func TestFollowLeavesNothing(t *testing.T) {
	w := newTown(t, "")
	w.Update(t, `INSERT DATA { <http://x.example/a> <http://x.example/p> 1 }`)
	program := binary(t)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // a command started under nohup would ignore it
	defer signal.Stop(hangup)
	for name, end := range map[string]func(c *exec.Cmd, out *os.File){
		"terminal closed": func(c *exec.Cmd, _ *os.File) { c.Process.Signal(syscall.SIGHUP) },
		"reader gone": func(_ *exec.Cmd, out *os.File) {
			out.Close()
			w.Update(t, `INSERT DATA { <http://x.example/a> <http://x.example/p> 2 }`) // to be printed
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			temp := t.TempDir()
			var stderr printed
			c := exec.CommandContext(t.Context(), program, "follow", "http://x.example/a", "--listen", "127.0.0.1:0", "--url", w.Endpoint,
				"--set", "slot=@every 1s", "--set", "budget=900ms", "--set", "min_gap=0s")
			c.Env = append(os.Environ(), "TMPDIR="+temp, "FRESHET_SERVER=")
			c.Stdout, c.Stderr = in, &stderr
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			in.Close()
			ended := make(chan error, 1)
			go func() { ended <- c.Wait() }()
			clitest.Eventually(t, "the watch", func() bool { return strings.Contains(stderr.String(), "watching") || len(ended) > 0 })
			if len(ended) > 0 {
				t.Fatal(stderr.String())
			}
			end(c, out)
			if err := <-ended; err != nil {
				t.Errorf("it ended with %v\n%s", err, stderr.String())
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left in the temporary directory: %v, %v\n%s", left, err, stderr.String())
			}
		})
	}
}
