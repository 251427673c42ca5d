package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
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
	w.update(t, `INSERT DATA { <`+wd+`Q937> <`+wdt+`P19> <`+wd+`Q3012> ; `+label+` "Albert Einstein"@en ; <http://schema.org/version> 1 .
		<`+wd+`P19> `+label+` "place of birth"@en . <`+wd+`Q3012> `+label+` "Ulm"@en . <`+wd+`Q4120> `+label+` "Neu-Ulm"@mul }`)
	for name, more := range map[string][]string{
		"own server":     {"--listen", "127.0.0.1:0"},
		"running server": {"--server", w.env["FRESHET_SERVER"]},
	} {
		t.Run(name, func(t *testing.T) {
			w.update(t, `DELETE WHERE { <`+wd+`Q937> <`+wdt+`P19> ?o } ; INSERT DATA { <`+wd+`Q937> <`+wdt+`P19> <`+wd+`Q3012> }`)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var out, stderr printed
			ended := make(chan int, 1)
			args := append([]string{"follow", "https://www.wikidata.org/entity/Q937", "--url", w.endpoint, "--set", "slot=@every 1s", "--set", "budget=900ms", "--set", "min_gap=0s"}, more...)
			go func() {
				ended <- runLine(ctx, args, &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &stderr, Getenv: func(string) string { return "" }})
			}()
			clitest.Eventually(t, "the first result", func() bool { return strings.Contains(out.String(), "1 row") || len(ended) > 0 })
			w.update(t, `DELETE DATA { <`+wd+`Q937> <`+wdt+`P19> <`+wd+`Q3012> } ; INSERT DATA { <`+wd+`Q937> <`+wdt+`P19> <`+wd+`Q4120> }`)
			clitest.Eventually(t, "the change", func() bool { return strings.Contains(out.String(), "→") || len(ended) > 0 })
			stop()
			if code := <-ended; code != cli.ExitOK || !strings.Contains(out.String(), " place of birth: Ulm → Neu-Ulm\n") {
				t.Errorf("exit code %d\n%s%s", code, out.String(), stderr.String())
			}
		})
	}
	a := &api{server: w.env["FRESHET_SERVER"], w: &cli.Env{Getenv: func(string) string { return "" }}}
	var e struct {
		URL         string   `json:"url"`
		OwnServices []string `json:"own_services"`
	}
	if err := a.do(t.Context(), http.MethodGet, "/v1/endpoints/wikidata", nil, &e); err != nil || e.URL != w.endpoint || len(e.OwnServices) == 0 {
		t.Errorf("the endpoint of the pack is %+v, %v", e, err)
	}
	for args, want := range map[string]string{
		"follow Douglas": "absolute IRI",
		"follow http://x.example/a --listen 127.0.0.1:0":                   "--url",
		"follow Q42 --listen 127.0.0.1:0":                                  "--contact",
		"follow Q42 --listen 127.0.0.1:0 --set budget":                     "KEY=VALUE",
		"follow Q42 --url http://127.0.0.1:1/ --server http://127.0.0.1:1": "no answer",
	} {
		if code, _, stderr := runCLI(t, nil, "", strings.Fields(args)...); code == cli.ExitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s, want %q", args, code, stderr, want)
		}
	}
}
