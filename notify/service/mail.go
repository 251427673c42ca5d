package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	netmail "net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/freshet/freshet/notify/deliver"
)

// Kinds of security between this server and the mail server.
const (
	StartTLS = "starttls" // required
	TLS      = "tls"      // from the first byte
	NoTLS    = "none"
)

const (
	mailTime    = 30 * time.Second // for sending one e-mail
	mostProblem = 300              // bytes of a mail server's answer that are shown
	mostMail    = 254              // bytes of an address (RFC 5321)
)

// Mail says how e-mail is sent, and to whom it may go.
type Mail struct {
	Server     string // host:port; "" sends none
	From       string
	Username   string // "": no authentication
	Password   string
	Security   string
	Recipients []string    // addresses and domains
	TLS        *tls.Config // nil: the roots of the system
}

// Check returns why no message may be sent to an address.
func (m *Mail) Check(address string) error {
	a, err := netmail.ParseAddress(address)
	if err != nil || a.Name != "" || a.Address != address {
		return errors.New("it is not an address such as ops@example.org")
	}
	if len(address) > mostMail {
		return fmt.Errorf("it is longer than %d bytes", mostMail)
	}
	if m.Server == "" {
		return errors.New("this server sends no e-mail: an operator can set mail.server, or use a webhook or Alertmanager")
	}
	_, domain, _ := strings.Cut(address, "@")
	for _, r := range m.Recipients {
		if strings.EqualFold(r, address) || !strings.Contains(strings.TrimPrefix(r, "@"), "@") &&
			strings.EqualFold(strings.TrimPrefix(r, "@"), domain) {
			return nil
		}
	}
	return errors.New("the setting mail.recipients of this server does not list it or its domain")
}

// A Letter is an e-mail. A repetition has the same identity and the same content.
type Letter struct {
	ID      string // letters and digits
	At      time.Time
	To      string
	Subject string
	Text    string
	Stop    string // where one click ends the letters (RFC 8058), "" for none
	Asked   bool   // somebody from outside has asked for it: to any address, which nothing is kept about
}

// Call returns a function that sends a letter.
func (m *Mail) Call(l Letter, now func() time.Time) func(context.Context, *deliver.Client) deliver.Reply {
	return func(ctx context.Context, _ *deliver.Client) deliver.Reply {
		r := deliver.Reply{Sent: now()}
		err := m.send(ctx, l)
		var refused *mail.SendError
		about := errors.As(err, &refused) && refused.ErrorCode() > 0 && slices.Contains(aboutLetter, refused.Reason)
		switch r.At = now(); {
		case err == nil:
			r.Status = http.StatusOK
			return r
		case about && refused.ErrorCode() >= 500:
			r.Status = http.StatusUnprocessableEntity
		default:
			r.Err = err
		}
		r.Alone, r.Said = about, problem(err, l)
		return r
	}
}

// aboutLetter are the reasons of failures that are about a letter or its receiver, not about the mail server.
var aboutLetter = []mail.SendErrReason{mail.ErrSMTPRcptTo, mail.ErrSMTPData, mail.ErrSMTPDataClose}

// problem describes a failure without the address of the receiver. Of letters that somebody from outside has
// asked for, nothing is kept that a mail server said.
func problem(err error, l Letter) string {
	text := err.Error()
	if refused := (*mail.SendError)(nil); errors.As(err, &refused) && l.Asked {
		text = strings.TrimSpace(fmt.Sprintf("%v: %d %s", refused.Reason, refused.ErrorCode(), refused.EnhancedStatusCode()))
	}
	text = strings.Join(strings.Fields(text), " ")
	if l.Asked {
		text = regexp.MustCompile("(?i)"+regexp.QuoteMeta(l.To)).ReplaceAllString(text, "…")
	}
	return advice(err) + ": " + strings.ToValidUTF8(text[:min(len(text), mostProblem)], "")
}

func (m *Mail) send(ctx context.Context, l Letter) error {
	if !l.Asked { // the setting may have changed
		if err := m.Check(l.To); err != nil {
			return err
		}
	}
	msg := mail.NewMsg()
	if err := errors.Join(msg.From(m.From), msg.To(l.To)); err != nil {
		return err
	}
	from, err := netmail.ParseAddress(m.From)
	if err != nil {
		return err
	}
	_, domain, _ := strings.Cut(from.Address, "@")
	msg.SetMessageIDWithValue(l.ID + "@" + domain)
	msg.SetDateWithValue(l.At)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	if l.Stop != "" {
		msg.SetGenHeader("List-Unsubscribe", "<"+l.Stop+">")
		msg.SetGenHeader("List-Unsubscribe-Post", "List-Unsubscribe=One-Click")
	}
	msg.Subject(l.Subject)
	msg.SetBodyString(mail.TypeTextPlain, l.Text)
	client, err := m.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, mailTime)
	defer cancel()
	// What fails after the acceptance, such as the end of the connection, is no failure.
	if err := client.DialAndSendWithContext(ctx, msg); err != nil && !msg.IsDelivered() {
		return err
	}
	return nil
}

// advice names the settings that a failure is about, and the remedy. The library has no
// types for some errors.
func advice(err error) string {
	var (
		dial    *net.OpError
		cert    *tls.CertificateVerificationError
		noTLS   tls.RecordHeaderError
		refused *mail.SendError
	)
	says := func(text string) bool { return strings.Contains(err.Error(), text) }
	switch {
	case errors.As(err, &cert):
		return "the certificate of mail.server is not valid: set mail.server to the name in it, or trust its authority on the " +
			"machine of this server"
	case errors.As(err, &noTLS):
		return "mail.server does not speak TLS on this port: set mail.security to starttls, or another port"
	case errors.As(err, &dial) && dial.Op == "dial":
		return "mail.server cannot be reached: check its host and port"
	case says("does not support STARTTLS"):
		return "mail.server does not offer STARTTLS on this port: set mail.security to tls or none, or another port"
	case errors.Is(err, mail.ErrNoSupportedAuthDiscovered), says("does not support SMTP AUTH"):
		return "mail.server offers no safe sign-in on this connection: set mail.security to starttls or tls, or remove " +
			"mail.username and mail.password_file"
	case says("SMTP AUTH failed"):
		return "mail.server refuses the sign-in: check mail.username and mail.password_file"
	case errors.As(err, &refused) && !refused.IsTemp() && refused.Reason == mail.ErrSMTPMailFrom:
		return "mail.server refuses the sender: check mail.from, and set mail.username if it requires a sign-in"
	case errors.As(err, &refused) && !refused.IsTemp() && refused.Reason == mail.ErrSMTPRcptTo:
		return "mail.server refuses this receiver: check the address, and set mail.username if it requires a sign-in"
	}
	return "the mail server"
}

func (m *Mail) client() (*mail.Client, error) {
	host, text, err := net.SplitHostPort(m.Server)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	o := []mail.Option{mail.WithPort(port), mail.WithTimeout(mailTime)}
	switch m.Security {
	case TLS:
		o = append(o, mail.WithSSL())
	case NoTLS:
		o = append(o, mail.WithTLSPolicy(mail.NoTLS))
	default:
		o = append(o, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if m.TLS != nil {
		o = append(o, mail.WithTLSConfig(m.TLS))
	}
	if m.Username != "" {
		o = append(o, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(m.Username), mail.WithPassword(m.Password))
	}
	return mail.NewClient(host, o...)
}
