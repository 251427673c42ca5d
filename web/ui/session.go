package ui

// This file keeps the sessions of signed-in browsers.

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	mostSessions = 1000           // signed-in browsers
	mostOfOne    = 50             // sessions with the same token
	idleSession  = 12 * time.Hour // a session ends after this time without a request
	longSession  = 7 * 24 * time.Hour
)

// Sessions map browsers to the tokens with which they signed in. They are kept in
// memory only: a restart ends all of them, and a stolen cookie is useless after it.
// The browser gets a random id, never the token.
type sessions struct {
	now    func() time.Time
	cookie string
	secure bool
	key    []byte // signs messages; another one in each process

	mu  sync.Mutex
	all map[[32]byte]*session // keyed by the hash of the id; the id itself is not stored
}

type session struct {
	token       string
	begun, seen time.Time
}

// newSessions derives the cookie's name from the address, because browsers do not
// separate cookies by port. Over TLS the name has the prefix that keeps other hosts,
// such as sibling domains, from setting the cookie.
func newSessions(now func() time.Time, public string) *sessions {
	sum := sha256.Sum256([]byte(public))
	s := &sessions{now: now, cookie: "freshet-" + hex.EncodeToString(sum[:4]), secure: strings.HasPrefix(public, "https:"), key: make([]byte, 32), all: map[[32]byte]*session{}}
	rand.Read(s.key) // never fails
	if s.secure {
		s.cookie = "__Host-" + s.cookie
	}
	return s
}

// begin creates a session. If there are too many, the least recently used one ends; a
// token that has too many loses its own, so no token signs others out.
func (s *sessions) begin(token string) (id string) {
	id = rand.Text()
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(mostOfOne, func(x *session) bool { return x.token == token })
	s.leave(mostSessions, func(*session) bool { return true })
	s.all[sha256.Sum256([]byte(id))] = &session{token, now, now}
	return id
}

// leave ends the least recently used of some sessions until there is room for one
// more.
func (s *sessions) leave(most int, some func(*session) bool) {
	for {
		var oldest [32]byte
		n := 0
		for k, x := range s.all {
			if !some(x) {
				continue
			}
			if n++; n == 1 || x.seen.Before(s.all[oldest].seen) {
				oldest = k
			}
		}
		if n < most {
			return
		}
		delete(s.all, oldest)
	}
}

// token returns the token of a valid session, else "".
func (s *sessions) token(id string) string {
	if id == "" {
		return ""
	}
	k, now := sha256.Sum256([]byte(id)), s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.all[k]
	if x == nil {
		return ""
	}
	if now.Sub(x.seen) > idleSession || now.Sub(x.begun) > longSession {
		delete(s.all, k)
		return ""
	}
	x.seen = now
	return x.token
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(id)))
}

func (s *sessions) id(r *http.Request) string {
	c, err := r.Cookie(s.cookie)
	if err != nil {
		return ""
	}
	return c.Value
}

// set sends a cookie that the browser returns only to this server; an empty value
// deletes it.
func (s *sessions) set(w http.ResponseWriter, name, value string, life time.Duration) {
	c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteStrictMode, MaxAge: int(life.Seconds())}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

const themeCookie = "freshet-theme"
