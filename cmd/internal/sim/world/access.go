package main

// This file has tokens: those of holders and followers, and somebody who tries to get in without one.

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
	"github.com/freshet/freshet/registry"
)

// The tokens of a world that has some.
const (
	holderToken = "holder-0123456789abcdef"
	appToken    = "app-0123456789abcdef"
	guestToken  = "guest-0123456789abcdef"
	viewerToken = "viewer-0123456789abcdef"
)

// tokens are those that the server knows.
func (w *world) tokens() []registry.Token {
	if !w.Tokens {
		return nil
	}
	return []registry.Token{
		{Name: "holder", Role: registry.RoleAdmin, SHA256: registry.HashSecret(holderToken)},
		{Name: "app", Role: registry.RoleApp, SHA256: registry.HashSecret(appToken)},
		{Name: "guest", Role: registry.RoleApp, SHA256: registry.HashSecret(guestToken)},
		{Name: "viewer", Role: registry.RoleRead, SHA256: registry.HashSecret(viewerToken)},
	}
}

// viewer is the token of a follower, if any.
func (w *world) viewer() string {
	if !w.Tokens {
		return ""
	}
	return viewerToken
}

// sign adds a token to a request.
func (w *world) sign(r *http.Request, token string) {
	if w.Tokens && token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
}

// trespass tries calls that need another token, and writes those that the server lets through.
func (w reader) trespass(ctx context.Context) {
	rng := rand.New(rand.NewPCG(w.Seed, 0xacce55+uint64(w.offset)))
	for len(w.Queries) > 0 && w.until(ctx, w.now()+time.Duration(2+rng.IntN(15))*time.Second) && w.now() < w.Span {
		path, method, token, body := "/v1/queries", http.MethodGet, "", ""
		switch rng.IntN(6) {
		case 0:
			path = "/v1/queries/" + name(rng.IntN(len(w.Queries))) + "/results"
		case 1:
			token = fmt.Sprint("wrong-0123456789-", rng.IntN(3))
		case 2:
			method, token, body = http.MethodPost, viewerToken, `{"query":"SELECT ?x { ?x ?y ?z }","endpoint":"city","name":"intruder"}`
		case 3:
			method, token, path = http.MethodDelete, viewerToken, "/v1/queries/"+name(rng.IntN(len(w.Queries)))
		case 4:
			token, path = viewerToken, "/v1/backup"
		}
		r, err := http.NewRequestWithContext(ctx, method, "http://"+w.server()+path, strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header.Set("Content-Type", "application/json")
		w.sign(r, token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			continue
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch s := resp.StatusCode; {
		case s == http.StatusUnauthorized && token != viewerToken, s == http.StatusForbidden && token == viewerToken, s > 500,
			s == http.StatusTooManyRequests:
		default:
			w.write(plan.Event{Kind: plan.Problem, Text: fmt.Sprintf("%s %s with token %q: %d %s", method, path, token, s, b)})
		}
	}
}
