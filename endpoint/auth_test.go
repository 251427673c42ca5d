package endpoint

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// The example of RFC 7616, section 3.9.1.
func TestDigestExample(t *testing.T) {
	const header = `Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=%s, ` +
		`nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"`
	for algorithm, response := range map[string]string{
		"MD5":     "8ca523f5e9506fed4657c9700eebdbec",
		"SHA-256": "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
	} {
		c := challenges(fmt.Sprintf(header, algorithm))
		if len(c) != 1 {
			t.Fatalf("%v", c)
		}
		got := c[0].response("Mufasa", "Circle of Life", "GET", "/dir/index.html", "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", 1)
		for _, part := range []string{`response="` + response + `"`, "nc=00000001", `qop=auth,`, `username="Mufasa"`, `opaque="FQhe`} {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %s does not have %s", algorithm, got, part)
			}
		}
	}
}

// The session variants hash the password again with both nonces, and a server
// without qop gets neither count nor quality (RFC 7616, section 3.4.2). The
// sums were computed independently of this program.
func TestDigestSessions(t *testing.T) {
	for k, response := range map[challenge]string{
		{realm: "r", nonce: "n", algorithm: "MD5-sess", auth: true}:     "c99564cc3184278b8d74d8d49b1ba5e2",
		{realm: "r", nonce: "n", algorithm: "SHA-256-sess", auth: true}: "3b1e802d9f43087e0a368f022ae13618ddd9b596e5335837c5688c830e5e9c70",
		{realm: "r", nonce: "n"}: "67ba42228c890e454de641d71cc53043",
	} {
		got := k.response("u", "p", "GET", "/sparql", "c", 1)
		if !strings.Contains(got, `response="`+response+`"`) || strings.Contains(got, "nc=") != k.auth {
			t.Errorf("%s: %s, want the response %s", k.algorithm, got, response)
		}
	}
}

func TestChallenges(t *testing.T) {
	got := challenges(`Negotiate, Basic realm="a, Digest nonce=\"x\"", Digest realm="q \"r\"", nonce=n1 , qop=auth, digest nonce="n2"`)
	want := []challenge{{realm: `q "r"`, nonce: "n1", auth: true}, {nonce: "n2"}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(challenge{})); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"", ",", "Digest", `Digest realm="`, `"`, "=", "Digest =,=", `Digest a="\`} {
		challenges(bad) // must not panic
	}
}

// The server checks every step of SHA-256 digest and changes its nonce. None of this reaches
// state that the process shares.
func TestDigest(t *testing.T) {
	shared, transport := http.DefaultClient, http.DefaultTransport
	var requests, nonce atomic.Int32
	last, used := "", uint32(0)
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		n := fmt.Sprintf("n%d", nonce.Load())
		k := challenge{realm: "r", nonce: n, algorithm: "SHA-256", opaque: "o", auth: true}
		var cn, nc string
		for _, item := range splitList(strings.TrimPrefix(r.Header.Get("Authorization"), "Digest ")) {
			name, value, _ := strings.Cut(item, "=")
			switch name {
			case "cnonce":
				cn = unquoted(value)
			case "nc":
				nc = value
			}
		}
		count := uint32(0)
		fmt.Sscanf(nc, "%x", &count)
		if count == 0 || r.Header.Get("Authorization") != k.response("u", "p", r.Method, r.URL.RequestURI(), cn, count) {
			w.Header().Add("WWW-Authenticate", `Digest realm="r", nonce="`+n+`", opaque="o", qop="auth", algorithm=MD5`)
			w.Header().Add("WWW-Authenticate", `Digest realm="r", nonce="`+n+`", opaque="o", qop="auth", algorithm=SHA-256`)
			w.Header().Add("WWW-Authenticate", `Digest realm="r", nonce="`+n+`", algorithm=SHA-512-256`)
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
