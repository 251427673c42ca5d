package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
)

// TestWaysOutAskTheRegistry checks that only registry/access.go decides what a caller may
// read or register, and that every protocol and way asks it.
func TestWaysOutAskTheRegistry(t *testing.T) {
	asks := map[string]string{ // by protocol: the file that admits its callers, and the function that it must call
		"HTTP and Atom": "web/call.go MayRead(&q)", "Server-sent events": "web/follow.go MayRead(&q)",
		"WebSocket": "notify/live/login.go MayRead(nil)", "SEPA": "notify/sepa/server.go MayRegister()",
		"subscribing by WebSub": "notify/websub/request.go MayRead(&query)", "WebSub": "notify/websub/hub.go MayRead(&q)",
		"Webhook": "notify/webhook/webhook.go MayRead(&q)", "People": "notify/people/people.go MayRead(&q)",
		"Alerts":             "notify/alert/evaluate.go MayRead(q)",
		"trying alert rules": "notify/alert/check.go MayRead(&q)", "pages": "web/ui/visit.go .Role.Includes(role)",
	}
	for way, ask := range asks {
		file, call, _ := strings.Cut(ask, " ")
		if text, err := os.ReadFile(filepath.Join("../..", file)); err != nil || !bytes.Contains(text, []byte(call)) {
			t.Errorf("%s: %s does not ask %s: %v", way, file, call, err)
		}
	}
	for _, way := range registry.Ways {
		if asks[way.Title()] == "" {
			t.Errorf("%s: name the file that asks whether a caller may read a query, and the call", way.Title())
		}
	}
	// These places show whether a query is public, or look for public queries alone when the registry asks for those.
	// They decide nothing.
	shown := []string{"web/queryview.go", "web/respond.go", "web/feed.go", "web/ui/query.go", "store/storedquery.go", "store/queries.go"}
	seen := 0
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel("../..", file)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || name == "registry"):
			return fs.SkipDir
		case !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(file)
		for _, own := range []string{".Public()", "aller.Role.Includes(registry.RoleRead)", "aller.Role.Includes(registry.RoleApp)"} {
			if !bytes.Contains(text, []byte(own)) {
				continue
			}
			if seen++; own != ".Public()" || !slices.Contains(shown, name) {
				t.Errorf("%s decides with %s: ask registry.Caller", name, own)
			}
		}
		return err
	})
	if err != nil || seen == 0 {
		t.Errorf("%d places seen: %v", seen, err)
	}
}
