// This file has a mail server for tests of what is sent by e-mail.

package notifytest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// A Mailbox is an SMTP server that keeps what it receives.
type Mailbox struct {
	Addr   string
	t      testing.TB
	mu     sync.Mutex
	answer func(Letter) error
	hangUp bool
	got    []Letter
}

// A Letter is one e-mail with its envelope.
type Letter struct {
	From, To string // of the envelope
	*mail.Message
	Body string // decoded
	Raw  string // as it came
}

// NewMailbox starts a mail server. With a certificate it requires STARTTLS, and the user
// freshet with the password sesame.
func NewMailbox(t testing.TB, cert *tls.Certificate) *Mailbox {
	b := &Mailbox{t: t}
	s := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &mailSession{Mailbox: b, conn: c, open: cert == nil}, nil
	}))
	s.Domain = "mail.example.org"
	s.ErrorLog = log.New(io.Discard, "", 0) // senders are killed
	if cert != nil {
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*cert}}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.Addr = l.Addr().String()
	over := make(chan error, 1)
	go func() { over <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		l.Close() // the server does not know it yet if the test ended at once
		if err := <-over; err != nil && !errors.Is(err, smtp.ErrServerClosed) {
			t.Error(err)
		}
	})
	return b
}

// Letters returns the e-mails that were accepted.
func (b *Mailbox) Letters() []Letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Letter(nil), b.got...)
}

// Answer sets a function that may refuse an e-mail, or delay the answer to it. An e-mail
// that is not refused is kept at the answer. With nil all are accepted.
func (b *Mailbox) Answer(answer func(Letter) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

// HangUp closes connections from now on after the answer to an e-mail.
func (b *Mailbox) HangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hangUp = true
}

// Refuse returns an answer with a code of SMTP.
func Refuse(code int, text string) func(Letter) error {
	return func(Letter) error { return &smtp.SMTPError{Code: code, Message: text} }
}

type mailSession struct {
	*Mailbox
	conn     *smtp.Conn
	open     bool // or authenticated
	from, to string
	answered bool
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
	raw, err := io.ReadAll(r)
	if err != nil {
		return err // the sender was killed
	}
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		s.t.Error(err)
		return err
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		s.t.Error(err)
	}
	l := Letter{s.from, s.to, m, string(body), string(raw)}
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		if err := answer(l); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, l)
	s.answered = true
	return nil
}

// Reset is called after each answer to an e-mail, among others.
func (s *mailSession) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered && s.hangUp {
		s.conn.Conn().Close()
	}
}

func (s *mailSession) Logout() error { return nil }
