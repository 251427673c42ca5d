package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// Wrong tokens are limited for each address, without effect on other addresses.
func TestGuessesAreBounded(t *testing.T) {
	now := morning
	known, unused := "a token that is in use", "a token not used so far"
	g, err := NewTokenGate([]registry.Token{{Name: "known", Role: registry.RoleApp, SHA256: registry.HashSecret(known)},
		{Name: "unused", Role: registry.RoleRead, SHA256: registry.HashSecret(unused)}},
		newMemory(morning), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	try := func(from, token string) error {
		_, err := g.Authenticate(from, token)
		return err
	}
	const bad, good = "203.0.113.9", "198.51.100.7"
	if err := errors.Join(try(bad, known), try(good, known)); err != nil {
		t.Fatal(err)
	}
	looked := 0
	for i := range 20 * guessBurst {
		if err := try(bad, fmt.Sprint("wrong token number ", i)); errors.Is(err, ErrUnauthorized) {
			looked++
		} else if !errors.Is(err, registry.ErrGuessing) {
			t.Fatal(err)
		}
	}
	if looked != guessBurst {
		t.Errorf("%d guesses at once were looked at, want %d", looked, guessBurst)
	}
	for _, x := range []struct {
		from, token string
		want        error
	}{
		{bad, known, nil}, // others at the same address go on
		{bad, unused, registry.ErrGuessing},
		{good, unused, nil},
		{good, "wrong token of somebody else", ErrUnauthorized},
		{"", "wrong token checked once more", ErrUnauthorized},
	} {
		if err := try(x.from, x.token); !errors.Is(err, x.want) {
			t.Errorf("%q from %q: %v, want %v", x.token, x.from, err, x.want)
		}
	}
	now = now.Add(10 * time.Second)
	if err := try(bad, unused); err != nil {
		t.Errorf("after a while: %v", err)
	}
	looked = 0
	for i := range 20 * guessBurst {
		if errors.Is(try(bad, fmt.Sprint("wrong token once more ", i)), ErrUnauthorized) {
			looked++
		}
	}
	if want := int(10 * guessRate); looked != want {
		t.Errorf("%d guesses after ten seconds, want %d", looked, want)
	}
}

// A token in use is remembered, however many addresses guess.
func TestTokensInUseAreRemembered(t *testing.T) {
	var g guesses
	mine := proof{"mine", "x"}
	g.succeeded(mine)
	for i := range 50_000 {
		from := fmt.Sprint("address ", i)
		g.failed(from, morning)
		g.succeeded(proof{from, "x"})
		g.succeeded(mine)
	}
	if _, known := g.right.Get(mine); !known {
		t.Error("a token in use is forgotten")
	}
}

// A short secret is never accepted, even if the file contains it.
func TestShortSecrets(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		g := gateOf(t, registry.Token{Name: "short", Role: registry.RoleAdmin, SHA256: registry.HashSecret("7")},
			registry.Token{Name: "long", Role: registry.RoleAdmin, SHA256: registry.HashSecret("äöüäöüäöüäöüäöüä")})
		g.now = func() time.Time { return morning } // however long the guesses take
		c.Gate = g
	})
	if a := w.get("/v1/queries", "Authorization: Bearer 7").problem(401, "unauthorized"); !strings.Contains(a.string("detail"),
		"16 characters") {
		t.Errorf("%s", a.body)
	}
	w.get("/v1/queries", "Authorization: Bearer äöüäöüäöüäöüäöüä").status(200)
	for range guessBurst {
		w.get("/v1/queries", "Authorization: Bearer a token that is wrong").problem(401, "unauthorized")
	}
	if a := w.get("/v1/queries", "Authorization: Bearer a token that is wrong").problem(429,
		"too-many-guesses"); a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	w.get("/v1/queries", "Authorization: Bearer äöüäöüäöüäöüäöüä").status(200)
	// the peer is no proxy of ours
	w.get("/v1/queries", "Authorization: Bearer a token that is wrong", "X-Forwarded-For: 198.51.100.7").problem(429, "too-many-guesses")
}

// After too many wrong tokens, each call says that it did not check the token, also if it is valid,
// and when to try again.
func TestGuessesAreNotCalledWrong(t *testing.T) {
	w, secrets := lockedWorld(t)
	for i := range guessBurst {
		w.get("/v1/queries", fmt.Sprint("Authorization: Bearer wrong token number ", i)).problem(401, "unauthorized")
	}
	s := &server{Config: w.config}
	for _, rt := range s.table() {
		if rt.need == "" {
			continue
		}
		target := strings.NewReplacer("{id}", "x", "{name}", "missing", "{slug}", "gap").Replace(rt.path)
		for _, token := range []string{"a token that is wrong", secrets[registry.RoleAdmin]} {
			w.token = token
			a := w.do(rt.method, target, "").problem(429, "too-many-guesses")
			if a.Header.Get("Retry-After") != "2" || !strings.Contains(a.string("detail"), "was not checked") {
				t.Errorf("%s %s: Retry-After %q, %s", rt.method, rt.path, a.Header.Get("Retry-After"), a.body)
			}
		}
	}
}

// A slowStore is the store of a node whose questions to the others take a while.
type slowStore struct{ TokenStore }

func (s slowStore) Newest(stranger bool) ([]registry.Token, error) {
	time.Sleep(time.Second)
	return s.TokenStore.Newest(stranger)
}

// Guesses whose outcome is not known yet count, too. Otherwise a guesser could send any number at once.
func TestGuessesAtOnceAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g, err := NewTokenGate([]registry.Token{{Name: "known", Role: registry.RoleApp,
			SHA256: registry.HashSecret("a token that is in use")}}, slowStore{newMemory(morning)}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		var checked atomic.Int64
		var group sync.WaitGroup
		for i := range 3 * guessBurst {
			group.Go(func() {
				if _, err := g.Authenticate("203.0.113.9", fmt.Sprint("wrong token number ", i)); errors.Is(err, ErrUnauthorized) {
					checked.Add(1)
				} else if !errors.Is(err, registry.ErrGuessing) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := checked.Load(); n != guessBurst {
			t.Errorf("%d guesses were checked at once, want %d", n, guessBurst)
		}
		time.Sleep(time.Minute)
		if _, err := g.Authenticate("203.0.113.9", "another wrong token"); !errors.Is(err, ErrUnauthorized) || len(g.guesses.asked) != 0 {
			t.Errorf("later: %v; %d addresses are remembered", err, len(g.guesses.asked))
		}
	})
}

// A cutStore is the store of a node that is cut off from its cluster.
type cutStore struct{ TokenStore }

var errCut = &registry.Problem{Kind: registry.KindUnavailable, Detail: "cut off"}

func (cutStore) Newest(bool) ([]registry.Token, error) { return nil, errCut }

// A node that is cut off does not call a token wrong that another node may have made, and does not count it.
func TestTokenOfAnotherNodeWhileCutOff(t *testing.T) {
	known := "a token that is in use"
	g, err := NewTokenGate([]registry.Token{{Name: "known", Role: registry.RoleApp, SHA256: registry.HashSecret(known)}},
		cutStore{newMemory(morning)}, func() time.Time { return morning })
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * guessBurst {
		if _, err := g.Authenticate("203.0.113.9", "a token made elsewhere"); !errors.Is(err, errCut) {
			t.Fatalf("try %d: %v", i, err)
		}
	}
	if _, err := g.Authenticate("203.0.113.9", known); err != nil {
		t.Error(err)
	}
}

// Streams whose token is revoked ask again whether it is valid. These are no guesses, so
// other tokens of their address are still checked.
func TestStreamsDoNotGuess(t *testing.T) {
	g, err := NewTokenGate(nil, newMemory(morning), func() time.Time { return morning })
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string]string{}
	for _, name := range []string{"ops", "reader", "other"} {
		if _, tokens[name], err = g.Make(name, registry.RoleAdmin, nil); err != nil {
			t.Fatal(err)
		}
	}
	open := func(name string) (*call, error) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+tokens[name])
		c := &call{server: &server{Config: Config{Gate: g}}, r: r, route: route{need: registry.RoleRead}}
		return c, c.admit(c.route)
	}
	var streams []*call
	for range 2 * guessBurst {
		c, err := open("reader")
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, c)
	}
	if err := g.Revoke("reader"); err != nil {
		t.Fatal(err)
	}
	for _, c := range streams {
		if err := c.admit(c.route); err == nil {
			t.Fatal("a revoked token is still valid")
		}
	}
	if _, err := open("other"); err != nil {
		t.Errorf("a new token of the address: %v", err)
	}
}
