// Tests of alerts by e-mail, with a real SMTP server.

package alert_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/registry"
)

// A mailbox is a mail server that keeps what it receives.
type mailbox struct {
	t      *testing.T
	addr   string
	mu     sync.Mutex
	refuse error
	got    []letter
}

type letter struct {
	from, to string
	*mail.Message
	body string
}

// newMailbox starts a mail server. With a certificate it requires STARTTLS and a password.
func newMailbox(t *testing.T, cert *tls.Certificate) *mailbox {
	b := &mailbox{t: t}
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &mailSession{mailbox: b, open: cert == nil}, nil }))
	s.Domain = "mail.example.org"
	if cert != nil {
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*cert}}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.addr = l.Addr().String()
	over := make(chan error, 1)
	go func() { over <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-over; err != nil && !errors.Is(err, smtp.ErrServerClosed) {
			t.Error(err)
		}
	})
	return b
}

func (b *mailbox) letters() []letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]letter(nil), b.got...)
}

func (b *mailbox) answer(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = err
}

type mailSession struct {
	*mailbox
	open     bool // or authenticated
	from, to string
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "freshet" || password != "sesame" {
			return smtp.ErrAuthFailed
		}
		s.open = true
		return nil
	}), nil
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	if !s.open {
		return smtp.ErrAuthRequired
	}
	s.from = from
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	m, err := mail.ReadMessage(r)
	if err != nil {
		s.t.Error(err)
		return err
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return s.refuse
	}
	s.got = append(s.got, letter{s.from, s.to, m, string(body)})
	return nil
}

func (s *mailSession) Reset() {}

func (s *mailSession) Logout() error { return nil }

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
	b := newMailbox(t, &web.TLS.Certificates[0])
	b.answer(&smtp.SMTPError{Code: 451, Message: "come back later"})
	r := newRig(t)
	r.mailing(alert.Mail{Server: b.addr, Security: alert.StartTLS, Username: "freshet", Password: "sesame", TLS: &tls.Config{RootCAs: roots, ServerName: "example.com"}})
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "Süd=5", "Nord=11\nBcc: x@example.com")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value contains 11", Summary: "?s is ?value late", To: []registry.Receiver{{Email: "ops@example.org"}}})
	until(t, "a refusal", func() bool {
		return strings.Contains(r.rule("late").Receivers[0].LastError, "come back later")
	})
	b.answer(nil)
	until(t, "the e-mail", func() bool { return len(b.letters()) == 1 })
	m := b.letters()[0]
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != "[FIRING] late: Nord is 11 Bcc: x@example.com late" || m.Header.Get("Bcc") != "" || m.from != "freshet@example.org" || m.to != "ops@example.org" ||
		m.Header.Get("Auto-Submitted") != "auto-generated" || !strings.HasSuffix(m.Header.Get("Message-Id"), "@example.org>") {
		t.Errorf("%v %q %+v", err, subject, m.Header)
	}
	if !strings.Contains(m.body, "FIRING late\r\n  Nord is 11 Bcc: x@example.com late\r\n  s=Nord\r\n") || !strings.Contains(m.body, "http://fresh.example/queries/"+q) {
		t.Errorf("%q", m.body)
	}
	r.record(q, "Süd=11", "West=11")
	until(t, "the second e-mail", func() bool { return r.rule("late").Receivers[0].Sent == 4 })
	if list := b.letters(); len(list) != 2 || list[1].Header.Get("Subject") != "[FIRING:2 RESOLVED:1] late" || !strings.Contains(list[1].body, "Süd is 11 late") {
		t.Errorf("%d e-mails, the last one %+v", len(list), list[len(list)-1])
	}
}

// E-mail goes only where the operator allows it, and never without the TLS that is required.
func TestMailIsRefused(t *testing.T) {
	r := newRig(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11")
	make := func(to string) error {
		_, err := r.Create(context.Background(), app, registry.RuleSettings{Name: "late", Query: q, When: "rows > 0", To: []registry.Receiver{{Email: to}}})
		return err
	}
	if err := make("ops@example.org"); err == nil || !strings.Contains(err.Error(), "mail.server") {
		t.Error(err)
	}
	b := newMailbox(t, nil)
	r.mailing(alert.Mail{Server: b.addr, Security: alert.StartTLS})
	for to, want := range map[string]string{"ops": "not an address", "Ops <ops@example.org>": "not an address", "ops@example.com": "mail.recipients", "two@example.net": "mail.recipients", "x@sub.example.org": "mail.recipients"} {
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
	if n := len(b.letters()); n != 0 {
		t.Errorf("%d e-mails without TLS", n)
	}
	r.mailing(alert.Mail{Server: b.addr, Security: alert.NoTLS})
	until(t, "the e-mail", func() bool { return len(b.letters()) == 1 })
}
