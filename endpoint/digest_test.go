package endpoint

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/icholy/digest"
)

func TestDigestSpellings(t *testing.T) {
	want := &digest.Challenge{Realm: `a, "Digest" b`, Nonce: "Zm9v=", Algorithm: "MD5", QOP: []string{"auth", "auth-int"}}
	for name, lines := range map[string][]string{
		"alone": {`Digest realm="a, \"Digest\" b", nonce="Zm9v=", algorithm=MD5, qop="auth,auth-int"`},
		"others before": {`Negotiate Zm9v==, Basic realm="x", Digest realm="a, \"Digest\" b", nonce="Zm9v=", algorithm=MD5, ` +
			`qop="auth,auth-int"`},
		"others after": {`Digest realm="a, \"Digest\" b", nonce="Zm9v=", algorithm=MD5, qop="auth,auth-int", Basic realm="x"`},
		"another digest": {`Digest realm="x", nonce="x", algorithm=SHA-3, Digest realm="a, \"Digest\" b", nonce="Zm9v=", ` +
			`algorithm=MD5, qop="auth,auth-int"`},
		"empty values": {`Digest realm="a, \"Digest\" b", domain=, nonce="Zm9v=", algorithm=MD5, opaque= , qop="auth,auth-int", charset=`},
		"spellings":    {`NTLM`, `DIGEST Realm = "a, \"Digest\" b" ,NONCE=Zm9v=,Algorithm="MD5",qop="auth, auth-int",`},
	} {
		got, err := digest.FindChallenge(http.Header{"Www-Authenticate": challenges(http.Header{"Www-Authenticate": lines})})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	for _, line := range []string{"", "Digest", `Basic realm="Digest", nonce="x"`, `realm="x"`, `=,",`, `Digest "`} {
		if got := challenges(http.Header{"Www-Authenticate": {line}}); got != nil {
			t.Errorf("%s has the challenges %q", line, got)
		}
	}
}
