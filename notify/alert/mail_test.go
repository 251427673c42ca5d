// Tests of alerts by e-mail, with a real SMTP server.

package alert_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"mime"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

// mailing restarts an engine that sends e-mail.
func (r *rig) mailing(m alert.Mail) {
	r.stop()
	m.From, m.Recipients = "Freshet <freshet@example.org>", []string{"example.org", "one@example.net"}
	r.options.Mail = m
	r.start()
}

// Alerts arrive with their texts, several in one e-mail, over TLS and with a password. A mail
// server that is down delays them.
func TestMail(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	b := notifytest.NewMailbox(t, &web.TLS.Certificates[0])
	b.Answer(notifytest.Refuse(451, "come back later"))
	r := newRig(t)
	r.mailing(alert.Mail{Server: b.Addr, Security: service.StartTLS, Username: "freshet", Password: "sesame",
		TLS: &tls.Config{RootCAs: roots, ServerName: "example.com"}})
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "Süd=5", "Nord=11\nBcc: x@example.com")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value contains 11", Summary: "?s is ?value late",
		To: []registry.Receiver{{Kind: "email", Address: "ops@example.org"}}})
	until(t, "a refusal", func() bool {
		return strings.Contains(r.rule("late").Receivers[0].LastError, "come back later")
	})
	b.Answer(nil)
	until(t, "the e-mail", func() bool { return len(b.Letters()) == 1 })
	m := b.Letters()[0]
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != "[FIRING] late: Nord is 11 Bcc: x@example.com late" || m.Header.Get("Bcc") != "" ||
		m.From != "freshet@example.org" || m.To != "ops@example.org" ||
		m.Header.Get("Auto-Submitted") != "auto-generated" || !strings.HasSuffix(m.Header.Get("Message-Id"), "@example.org>") {
		t.Errorf("%v %q %+v", err, subject, m.Header)
	}
	if !strings.Contains(m.Body, "FIRING late\r\n  Nord is 11 Bcc: x@example.com late\r\n  s=Nord\r\n") || !strings.Contains(m.Body,
		"http://fresh.example/queries/"+q) {
		t.Errorf("%q", m.Body)
	}
	r.record(q, "Süd=11", "West=11")
	until(t, "the second e-mail", func() bool { return r.rule("late").Receivers[0].Deliveries == 4 })
	if list := b.Letters(); len(list) != 2 || list[1].Header.Get("Subject") != "[FIRING:2 RESOLVED:1] late" ||
		!strings.Contains(list[1].Body, "Süd is 11 late") {
		t.Errorf("%d e-mails, the last one %+v", len(list), list[len(list)-1])
	}
}

// E-mail goes only where the operator allows it, and never without the TLS that is required.
func TestMailIsRefused(t *testing.T) {
	r := newRig(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11")
	make := func(to string) error {
		_, err := r.Create(context.Background(), app, registry.RuleSettings{Name: "late", Query: q, When: "rows > 0",
			To: []registry.Receiver{{Kind: "email", Address: to}}})
		return err
	}
	if err := make("ops@example.org"); err == nil || !strings.Contains(err.Error(), "mail.server") {
		t.Error(err)
	}
	b := notifytest.NewMailbox(t, nil)
	r.mailing(alert.Mail{Server: b.Addr, Security: service.StartTLS})
	for to, want := range map[string]string{"ops": "not an address", "Ops <ops@example.org>": "not an address",
		"ops@example.com": "mail.recipients", "two@example.net": "mail.recipients", "x@sub.example.org": "mail.recipients",
		strings.Repeat("x", 250) + "@example.org": "longer than 254 bytes"} {
		if err := make(to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", to, err)
		}
	}
	if err := make("One@example.net"); err != nil {
		t.Fatal(err)
	}
	until(t, "a failure", func() bool {
		return strings.Contains(r.rule("late").Receivers[0].LastError, "STARTTLS")
	})
	if n := len(b.Letters()); n != 0 {
		t.Errorf("%d e-mails without TLS", n)
	}
	r.mailing(alert.Mail{Server: b.Addr, Security: service.NoTLS})
	until(t, "the e-mail", func() bool { return len(b.Letters()) == 1 })
}

// An e-mail that was accepted is not sent again if the mail server hangs up afterwards.
func TestMailServerHangsUp(t *testing.T) {
	b := notifytest.NewMailbox(t, nil)
	b.HangUp()
	r := newRig(t)
	r.mailing(alert.Mail{Server: b.Addr, Security: service.NoTLS})
	q := r.log.Add("late", diff.Select, false)
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "rows > 0",
		To: []registry.Receiver{{Kind: "email", Address: "ops@example.org"}}})
	for i, rows := range [][]string{{"a=11"}, nil} {
		r.record(q, rows...)
		var x registry.Subscription
		until(t, "an attempt", func() bool {
			x = r.rule("late").Receivers[0]
			return x.Failures > 0 || x.Deliveries > uint64(i)
		})
		if list := b.Letters(); len(list) != i+1 || x.Failures > 0 {
			t.Fatalf("%d e-mails of %d, %+v", len(list), i+1, x)
		}
	}
}

// The mail server that is slow with the e-mails of one token does not delay those of another.
func TestSlowMailOfAnotherToken(t *testing.T) {
	release := make(chan struct{})
	var slow atomic.Int32
	b := notifytest.NewMailbox(t, nil)
	b.Answer(func(l notifytest.Letter) error {
		if strings.HasPrefix(l.To, "slow") {
			slow.Add(1)
			<-release
		}
		return nil
	})
	r := newRig(t)
	defer close(release)
	r.mailing(alert.Mail{Server: b.Addr, Security: service.NoTLS})
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11")
	for i := range 4 {
		s := registry.RuleSettings{Name: fmt.Sprint("slow", i), Query: q, When: "?value > 10"}
		for k := range 10 {
			s.To = append(s.To, registry.Receiver{Kind: "email", Address: fmt.Sprintf("slow%d.%d@example.org", i, k)})
		}
		r.createFor("a", s)
	}
	until(t, "e-mails that take all places of a host", func() bool { return slow.Load() >= 16 })
	r.createFor("b", registry.RuleSettings{Name: "good", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "email", Address: "good@example.org"}}})
	until(t, "the e-mail of the other token", func() bool { return len(b.Letters()) == 1 })
	if n := slow.Load(); n != 16 {
		t.Errorf("%d e-mails are under way", n)
	}
}
