// Tests of a server whose alert rules send e-mail, with a real mail server.

package trial

import (
	"crypto/tls"
	"encoding/pem"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/notify/notifytest"
)

// A mailTown is an endpoint and a server with a rule that sends e-mail to ops@example.org.
type mailTown struct {
	*restartingServer
	town
	roots    string // file with the certificate of mail servers
	password string // file
	cert     *tls.Certificate
}

func newMailTown(t *testing.T) *mailTown {
	clitest.NeedEngine(t)
	bin := binary(t)
	engine := clitest.Start(t, bin, "sparql", "--listen", "127.0.0.1:0")
	web := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	t.Cleanup(web.Close)
	dir := t.TempDir()
	m := &mailTown{town: town{clitest.Town{Endpoint: engine.Url}}, cert: &web.TLS.Certificates[0],
		roots: filepath.Join(dir, "roots"), password: filepath.Join(dir, "password"),
		restartingServer: &restartingServer{t: t, bin: bin, addr: clitest.FreeAddr(t), data: t.TempDir()}}
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	for path, text := range map[string]string{m.roots: string(root), m.password: "sesame\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SSL_CERT_FILE", m.roots)
	t.Cleanup(func() { m.p.Kill() })
	return m
}

// configure sets the block of the mail server for the next start.
func (m *mailTown) configure(settings string) {
	m.yaml = "endpoints: [{name: city, url: \"" + m.Endpoint + "\", slot: never, budget: 1h}]\n"
	if settings != "" {
		m.yaml += "mail: {from: \"Freshet <freshet@example.org>\", recipients: [example.org], " + settings + "}\n"
	}
}

func (m *mailTown) signIn() string { return "username: freshet, password_file: \"" + m.password + "\"" }

// post sends a request that must succeed.
func (m *mailTown) post(t *testing.T, path string, in any) {
	t.Helper()
	if _, err := m.call(t.Context(), http.MethodPost, path, in); err != nil {
		t.Fatal(err)
	}
}

var lateRule = map[string]any{"name": "late", "query": "values", "when": "?v > 4", "summary": "?s is ?v late",
	"to": []any{map[string]any{"email": "ops@example.org"}}}

func (m *mailTown) query(t *testing.T) {
	m.post(t, "/v1/queries", map[string]any{"endpoint": "city", "name": "values", "query": "SELECT ?s ?v { ?s <http://x/v> ?v }"})
}

// set replaces all values and runs a slot.
func (m *mailTown) set(t *testing.T, turtle string) {
	t.Helper()
	m.Update(t, "DELETE WHERE { ?s <http://x/v> ?v } ; INSERT DATA { "+turtle+" }")
	m.post(t, "/v1/endpoints/city/tick", nil)
}

type mailStatus struct {
	Waiting   int
	LastError string `json:"last_error"`
}

func (m *mailTown) receiver(t *testing.T) mailStatus {
	t.Helper()
	var v struct{ To []mailStatus }
	if err := m.get(t.Context(), "/v1/rules/late", &v); err != nil || len(v.To) != 1 {
		t.Fatal(err, v)
	}
	return v.To[0]
}

// delivered waits until a number of e-mails has arrived and their delivery is recorded. What
// is recorded is not sent again.
func (m *mailTown) delivered(t *testing.T, b *notifytest.Mailbox, n int) []notifytest.Letter {
	t.Helper()
	clitest.Eventually(t, "the e-mail", func() bool { return len(b.Letters()) >= n && m.receiver(t).Waiting == 0 })
	return b.Letters()
}

// A server sends each alert and each end of one by e-mail, also if the mail server refuses it at
// first and the server is killed. It repeats only the e-mail whose acceptance it did not
// learn, and the repetition is the same to the byte.
func TestMailSurvivesKills(t *testing.T) {
	m := newMailTown(t)
	b := notifytest.NewMailbox(t, m.cert)
	m.configure("server: \"" + b.Addr + "\", " + m.signIn())
	m.start()
	m.query(t)
	m.post(t, "/v1/rules", lateRule)

	m.set(t, "<http://x/a> <http://x/v> 7 . <http://x/b> <http://x/v> 3")
	m.delivered(t, b, 1)
	m.kill()
	m.set(t, "<http://x/a> <http://x/v> 2 . <http://x/b> <http://x/v> 3")
	list := m.delivered(t, b, 2)
	if len(list) != 2 {
		t.Fatalf("%d e-mails, want one that the alert fires and one that it is resolved", len(list))
	}
	ids := map[string]bool{}
	for i, want := range []struct{ subject, body string }{
		{"[FIRING] late: http://x/a is 7 late", "FIRING late\r\n  http://x/a is 7 late\r\n  s=http://x/a\r\n  since "},
		{"[RESOLVED] late: http://x/a is 7 late", "RESOLVED late\r\n  http://x/a is 7 late\r\n  s=http://x/a\r\n  since "},
	} {
		l := list[i]
		if l.From != "freshet@example.org" || l.To != "ops@example.org" || l.Header.Get("From") != `"Freshet" <freshet@example.org>` ||
			l.Header.Get("To") != "<ops@example.org>" || l.Header.Get("Subject") != want.subject {
			t.Errorf("from %s to %s, %v", l.From, l.To, l.Header)
		}
		if at, err := l.Header.Date(); err != nil || at.IsZero() {
			t.Errorf("%v: %v", err, l.Header)
		}
		id := l.Header.Get("Message-Id")
		if ids[id] || !strings.HasPrefix(id, "<") || !strings.HasSuffix(id, "@example.org>") {
			t.Errorf("message id %q", id)
		}
		ids[id] = true
		if !strings.HasPrefix(l.Body, want.body) || strings.Contains(l.Body, "\r\n  until ") != (i == 1) || !strings.Contains(l.Body,
			"http://"+m.addr+"/queries/q_") {
			t.Errorf("%q", l.Body)
		}
	}

	b.Answer(notifytest.Refuse(451, "come back later"))
	m.set(t, "<http://x/a> <http://x/v> 8 . <http://x/b> <http://x/v> 9")
	clitest.Eventually(t, "a refusal", func() bool {
		x := m.receiver(t)
		return x.Waiting == 2 && strings.Contains(x.LastError, "451 ") && strings.Contains(x.LastError, "come back later")
	})
	m.p.Kill()
	// The mail server accepts the e-mail now, and the server is killed before it learns that.
	arrived, killed := make(chan struct{}, 100), make(chan struct{})
	b.Answer(func(notifytest.Letter) error {
		arrived <- struct{}{}
		<-killed
		return nil
	})
	m.start()
	clitest.Eventually(t, "the e-mail after the refusal", func() bool { return len(arrived) > 0 })
	m.p.Kill()
	close(killed)
	clitest.Eventually(t, "the acceptance", func() bool { return len(b.Letters()) >= 3 })
	now := time.Now().Unix()
	clitest.Eventually(t, "another second, which a new Date would show", func() bool { return time.Now().Unix() > now })
	m.start()
	list = m.delivered(t, b, 4)[2:]
	for _, l := range list {
		if l.Header.Get("Subject") != "[FIRING:2] late" || l.Raw != list[0].Raw || ids[l.Header.Get("Message-Id")] {
			t.Errorf("instead of the same e-mail again:\n%s\n%s", list[0].Raw, l.Raw)
		}
	}
	before := len(b.Letters())
	m.set(t, "<http://x/b> <http://x/v> 9")
	if list := m.delivered(t, b, before+1); len(list) != before+1 || list[before].Header.Get("Subject") != "[RESOLVED] late: "+
		"http://x/a is 8 late" {
		t.Errorf("%d e-mails instead of %d, the last one %v", len(list), before+1, list[len(list)-1].Header)
	}
}

// What is wrong with the settings of the mail server is shown on the page of the rule and in
// the API, with the setting and the remedy. The alerts wait until the settings are right.
func TestMailSettings(t *testing.T) {
	m := newMailTown(t)
	b, open := notifytest.NewMailbox(t, m.cert), notifytest.NewMailbox(t, nil)
	m.configure("")
	m.start()
	m.query(t)
	if _, err := m.call(t.Context(), http.MethodPost, "/v1/rules", lateRule); err == nil || !strings.Contains(err.Error(), "422 ") ||
		!strings.Contains(err.Error(), "an operator can set mail.server, or use a webhook") {
		t.Errorf("%v", err)
	}
	unused := clitest.FreeAddr(t)
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("open\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(addr string) string { return "server: \"" + addr + "\", " }
	added := false
	for _, c := range []struct{ name, settings, roots, want string }{
		{"no server at the address", at(unused) + "security: none", m.roots, "mail.server cannot be reached: check its host and port"},
		{"no sign-in", at(b.Addr) + "security: starttls", m.roots, "check mail.from, and set mail.username"},
		{"wrong password", at(b.Addr) + "username: freshet, password_file: \"" + wrong + "\"", m.roots,
			"refuses the sign-in: check mail.username and mail.password_file"},
		{"sign-in without TLS", at(b.Addr) + "security: none, " + m.signIn(), m.roots,
			"set mail.security to starttls or tls, or remove mail.username"},
		{"certificate of another authority", at(b.Addr) + m.signIn(), "", "the certificate of mail.server is not valid"},
		{"no STARTTLS", at(open.Addr) + "security: starttls", m.roots, "set mail.security to tls or none, or another port"},
		{"TLS on another port", at(b.Addr) + "security: tls", m.roots, "set mail.security to starttls, or another port"},
		{"no mail server", "", m.roots, "an operator can set mail.server"},
	} {
		m.configure(c.settings)
		t.Setenv("SSL_CERT_FILE", c.roots)
		m.kill()
		if !added {
			added = true
			m.post(t, "/v1/rules", lateRule)
			m.set(t, "<http://x/a> <http://x/v> 7")
		}
		var x mailStatus
		clitest.Eventually(t, c.name, func() bool { x = m.receiver(t); return strings.Contains(x.LastError, c.want) })
		page, err := m.call(t.Context(), http.MethodGet, "/rules/late", nil)
		if text := html.UnescapeString(string(page)); err != nil || !strings.Contains(x.LastError, c.want) ||
			!strings.Contains(strings.ToLower(text), strings.ToLower(c.want)) || x.Waiting != 1 {
			t.Errorf("%s: %v, %+v, want %q, also on the page", c.name, err, x, c.want)
		}
	}
	m.configure(at(b.Addr) + m.signIn())
	t.Setenv("SSL_CERT_FILE", m.roots)
	m.kill()
	if n, x := len(m.delivered(t, b, 1)), m.receiver(t); n != 1 || x.LastError != "" || len(open.Letters()) > 0 {
		t.Errorf("%d e-mails, %+v", n, x)
	}
}
