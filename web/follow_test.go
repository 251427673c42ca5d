package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// followed serves streams that last until their request ends, and calls lose meanwhile.
// It reports on ended whether the request ended.
func followed(t *testing.T, lose func(*world, string)) (w *world, secrets map[registry.Role]string, ended chan bool) {
	ended = make(chan bool, 1)
	last := func(rw http.ResponseWriter, r *http.Request, query string) {
		lose(w, query)
		sse(rw, "")
		select {
		case <-r.Context().Done():
			ended <- true
		case <-time.After(time.Minute):
			ended <- false
		}
	}
	w, secrets = lockedWorld(t, func(c *Config) {
		c.Limits.Recheck = 5 * time.Millisecond
		c.Followers = streams{
			query: func(rw http.ResponseWriter, r *http.Request, q registry.Query) { last(rw, r, q.ID) },
			all:   func(rw http.ResponseWriter, r *http.Request, _ func(*registry.Change) bool) { last(rw, r, "") },
		}
	})
	return w, secrets, ended
}

// A stream ends soon after its token is deleted, or its query is no longer public.
func TestStreamEndsWithTheRight(t *testing.T) {
	withdraw := func(w *world, _ string) {
		if err := w.m.DeleteToken(string(registry.RoleRead), false); err != nil {
			w.t.Error(err)
		}
	}
	hide := func(w *world, query string) {
		no := false
		if _, err := w.config.Registry.Patch(registry.Caller{Name: string(registry.RoleApp), Role: registry.RoleApp}, query,
			registry.Patch{Public: &no}); err != nil {
			w.t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		path string // behind the query's, "": of all queries
		role registry.Role
		lose func(*world, string)
	}{
		"token of one query":   {"/changes", registry.RoleRead, withdraw},
		"token of all queries": {"", registry.RoleRead, withdraw},
		"public":               {"/changes", "", hide},
	} {
		t.Run(name, func(t *testing.T) {
			w, secrets, ended := followed(t, c.lose)
			w.token = secrets[registry.RoleApp]
			id := w.register(selectText, `"public":true`)
			w.token = secrets[c.role]
			path := "/v1/changes"
			if c.path != "" {
				path = "/v1/queries/" + id + c.path
			}
			w.get(path, "Accept: text/event-stream").status(200)
			if !<-ended {
				t.Error("the stream goes on")
			}
		})
	}
}

// A stream continues while its caller has access.
func TestStreamGoesOn(t *testing.T) {
	asked := make(chan struct{}, 1000)
	cut := make(chan bool, 1)
	w, secrets := lockedWorld(t, func(c *Config) {
		c.Limits.Recheck = 2 * time.Millisecond
		c.Gate.store = countingStore{c.Gate.store, asked}
		c.Followers = streams{query: func(rw http.ResponseWriter, r *http.Request, _ registry.Query) {
			for range 5 {
				<-asked
			}
			cut <- r.Context().Err() != nil
			sse(rw, "")
		}}
	})
	w.token = secrets[registry.RoleApp]
	id := w.register(selectText, `"public":true`)
	for _, role := range []registry.Role{registry.RoleRead, ""} {
		w.token = secrets[role]
		w.get("/v1/queries/"+id+"/changes", "Accept: text/event-stream").status(200)
		if <-cut {
			t.Errorf("the stream of %q was ended", role)
		}
	}
}

type countingStore struct {
	TokenStore
	asked chan<- struct{}
}

func (s countingStore) Tokens() ([]registry.Token, error) {
	select {
	case s.asked <- struct{}{}:
	default:
	}
	return s.TokenStore.Tokens()
}
