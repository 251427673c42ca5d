package endpoint

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/icholy/digest"

	"github.com/freshet/freshet/registry"
)

func TestBasicAndBearer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := ""
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		send(200, typeJSON, rows(0))(w, r)
	})
	for _, c := range []struct {
		name string
		auth registry.Auth
		want string
	}{
		{"none", registry.Auth{}, ""},
		{"basic", registry.Auth{Basic: &registry.Password{Username: "u", Password: "p"}}, "Basic dTpw"},
		{"basic file", registry.Auth{Basic: &registry.Password{Username: "u", PasswordFile: file}}, "Basic dTpw"},
		{"the file before the value", registry.Auth{Basic: &registry.Password{Username: "u", Password: "x", PasswordFile: file}}, "Basic dTpw"},
		{"bearer", registry.Auth{Bearer: &registry.Bearer{Token: "t"}}, "Bearer t"},
		{"bearer file", registry.Auth{Bearer: &registry.Bearer{TokenFile: file}}, "Bearer p"},
	} {
		write("p\r\n")
		cl := client(t, addr, func(e *registry.Endpoint, o *Options) { e.Auth = c.auth })
		want(t, execute(t, cl, sel("S")), registry.Changed)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if strings.HasSuffix(c.name, "file") {
			write("new")
			execute(t, cl, sel("S"))
			if got == c.want {
				t.Errorf("%s: a new secret in the file is not used", c.name)
			}
		}
	}
	cl := client(t, addr, func(e *registry.Endpoint, o *Options) {
		e.Auth.Bearer = &registry.Bearer{TokenFile: filepath.Join(t.TempDir(), "none")}
	})
	a := execute(t, cl, sel("S"))
	want(t, a, registry.Failed, "credentials cannot be read")
	if a.Elapsed != 0 {
		t.Errorf("elapsed %v without a request", a.Elapsed)
	}
	if cl.Health().Failures != 0 {
		t.Error("our missing file counts as the endpoint's failure")
	}
}

// The server checks every step of SHA-256 digest and changes its nonce. None of this reaches
// state that the process shares.
func TestDigest(t *testing.T) {
	shared, transport := http.DefaultClient, http.DefaultTransport
	var requests, nonce atomic.Int32
	last, used := "", 0
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		n := fmt.Sprintf("n%d", nonce.Load())
		k := &digest.Challenge{Realm: "r", Nonce: n, Algorithm: "SHA-256", Opaque: "o", QOP: []string{"auth"}}
		count := 0
		got, err := digest.ParseCredentials(r.Header.Get("Authorization"))
		if err == nil {
			want, err := digest.Digest(k, digest.Options{Method: r.Method, URI: r.URL.RequestURI(), Count: got.Nc, Cnonce: got.Cnonce,
				Username: "u", Password: "p"})
			if err == nil && got.String() == want.String() {
				count = got.Nc
			}
		}
		if count == 0 {
			w.Header().Add("WWW-Authenticate", `Negotiate`)
			w.Header().Add("WWW-Authenticate", `Digest realm="r", nonce="`+n+`", algorithm=SHA-3`)
			w.Header().Add("WWW-Authenticate", `Digest realm="r", nonce="`+n+`", opaque="o", qop="auth", algorithm=SHA-256`)
			w.Header().Add("WWW-Authenticate", `Digest realm="r", nonce="`+n+`", opaque="o", qop="auth", algorithm=MD5`)
			w.WriteHeader(401)
			return
		}
		if n == last && count != used+1 || n != last && count != 1 {
			t.Errorf("use %d of nonce %s after use %d of %s", count, n, used, last)
		}
		last, used = n, count
		if r.FormValue("query") == "" {
			t.Error("the query was lost on the way")
		}
		send(200, typeJSON, rows(0))(w, r)
	})
	c := client(t, addr, func(e *registry.Endpoint, o *Options) {
		e.Auth.Digest = &registry.Password{Username: "u", Password: "p"}
	})
	expect := func(n int32, q *registry.Query) {
		t.Helper()
		was := requests.Load()
		want(t, execute(t, c, q), registry.Changed)
		if requests.Load()-was != n {
			t.Errorf("%d requests, want %d", requests.Load()-was, n)
		}
	}
	expect(2, sel("S"))
	expect(1, sel("S")) // the challenge is known
	expect(1, sel(strings.Repeat("x", longestGET)))
	nonce.Add(1)
	expect(2, sel(strings.Repeat("x", longestGET)))
	wrong := client(t, addr, func(e *registry.Endpoint, o *Options) {
		e.Auth.Digest = &registry.Password{Username: "u", Password: "wrong"}
	})
	was := requests.Load()
	want(t, execute(t, wrong, sel("S")), registry.Failed, "401", "credentials")
	if requests.Load()-was != 2 {
		t.Errorf("%d requests with a wrong password, want 2", requests.Load()-was)
	}
	if d := http.DefaultClient; d != shared || d.Transport != nil || d.Timeout != 0 || d.CheckRedirect != nil || d.Jar != nil ||
		http.DefaultTransport != transport {
		t.Error("a client of the whole process was changed")
	}
}
