// This file sends alerts by e-mail.

package alert

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	netmail "net/mail"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/wneessen/go-mail"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// Kinds of security between this server and the mail server.
const (
	StartTLS = "starttls" // required
	TLS      = "tls"      // from the first byte
	NoTLS    = "none"
)

const (
	mailTime    = 30 * time.Second // for sending one e-mail
	mostSubject = 200
	mostProblem = 300 // bytes of a mail server's answer that are shown
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

var _ = known(&kind{Kind: Kind{"email", "address that gets the alerts by e-mail"}, batch: batch, together: true, send: toMail,
	check: func(o *Options, address string) (string, error) { return address, o.Mail.check(address) }})

func toMail(o *Options, to *registry.Receiver, list []registry.AlertMessage) (func(context.Context, *deliver.Client) deliver.Reply, error) {
	return func(ctx context.Context, _ *deliver.Client) deliver.Reply {
		r := deliver.Reply{Sent: o.Now()}
		err := o.mail(ctx, to.Address, list)
		if r.At = o.Now(); err != nil {
			r.Err, r.Said = err, err.Error()
		} else {
			r.Status, r.Settled = http.StatusOK, len(list)
		}
		return r
	}, nil
}

// check returns why no alert may be sent to an address.
func (m *Mail) check(address string) error {
	a, err := netmail.ParseAddress(address)
	if err != nil || a.Name != "" || a.Address != address {
		return errors.New("it is not an address such as ops@example.org")
	}
	if m.Server == "" {
		return errors.New("this server sends no e-mail: an operator can set mail.server, or use a webhook or Alertmanager")
	}
	_, domain, _ := strings.Cut(address, "@")
	for _, r := range m.Recipients {
		if strings.EqualFold(r, address) || !strings.Contains(strings.TrimPrefix(r, "@"), "@") && strings.EqualFold(strings.TrimPrefix(r, "@"), domain) {
			return nil
		}
	}
	return errors.New("the setting mail.recipients of this server does not list it or its domain")
}

// mail sends alerts in one e-mail.
func (o *Options) mail(ctx context.Context, to string, list []registry.AlertMessage) error {
	m := &o.Mail
	if err := m.check(to); err != nil { // the setting may have changed
		return err
	}
	msg := mail.NewMsg()
	if err := errors.Join(msg.From(m.From), msg.To(to)); err != nil {
		return err
	}
	ids := sha256.New()
	for i := range list {
		fmt.Fprintln(ids, list[i].ID)
	}
	from, err := netmail.ParseAddress(m.From)
	if err != nil {
		return err
	}
	_, domain, _ := strings.Cut(from.Address, "@")
	// A repetition has the same identity and the same content.
	msg.SetMessageIDWithValue(hex.EncodeToString(ids.Sum(nil)[:16]) + "@" + domain)
	msg.SetDateWithValue(list[len(list)-1].At)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.Subject(subject(list))
	var body strings.Builder
	for i := range list {
		o.describe(&body, &list[i])
	}
	msg.SetBodyString(mail.TypeTextPlain, body.String())
	client, err := m.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, mailTime)
	defer cancel()
	// What fails after the acceptance, such as the end of the connection, is no failure.
	if err := client.DialAndSendWithContext(ctx, msg); err != nil && !msg.IsDelivered() {
		text := strings.Join(strings.Fields(err.Error()), " ")
		return errors.New(advice(err) + ": " + strings.ToValidUTF8(text[:min(len(text), mostProblem)], ""))
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
		return "the certificate of mail.server is not valid: set mail.server to the name in it, or trust its authority on the machine of this server"
	case errors.As(err, &noTLS):
		return "mail.server does not speak TLS on this port: set mail.security to starttls, or another port"
	case errors.As(err, &dial) && dial.Op == "dial":
		return "mail.server cannot be reached: check its host and port"
	case says("does not support STARTTLS"):
		return "mail.server does not offer STARTTLS on this port: set mail.security to tls or none, or another port"
	case errors.Is(err, mail.ErrNoSupportedAuthDiscovered), says("does not support SMTP AUTH"):
		return "mail.server offers no safe sign-in on this connection: set mail.security to starttls or tls, or remove mail.username and mail.password_file"
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

// subject names what alerts are about.
func subject(list []registry.AlertMessage) string {
	if len(list) == 1 {
		text := fmt.Sprintf("[%s] %s", strings.ToUpper(string(list[0].State)), list[0].Name)
		if s := oneLine(list[0].Summary); s != "" {
			text += ": " + s
		}
		return strings.ToValidUTF8(text[:min(len(text), mostSubject)], "")
	}
	count, names := map[registry.AlertState]int{}, map[string]bool{}
	for i := range list {
		count[list[i].State]++
		names[list[i].Name] = true
	}
	var states []string
	for _, s := range []registry.AlertState{registry.AlertFiring, registry.AlertResolved} {
		if count[s] > 0 {
			states = append(states, fmt.Sprintf("%s:%d", strings.ToUpper(string(s)), count[s]))
		}
	}
	text := fmt.Sprintf("[%s] %s", strings.Join(states, " "), strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	return strings.ToValidUTF8(text[:min(len(text), mostSubject)], "")
}

// describe writes the paragraph about one alert.
func (o *Options) describe(b *strings.Builder, m *registry.AlertMessage) {
	fmt.Fprintf(b, "%s %s\r\n", strings.ToUpper(string(m.State)), m.Name)
	if s := oneLine(m.Summary); s != "" {
		fmt.Fprintf(b, "  %s\r\n", s)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		fmt.Fprintf(b, "  %s=%s\r\n", name, oneLine(m.Labels[name]))
	}
	fmt.Fprintf(b, "  since %s\r\n", m.StartsAt.UTC().Format(time.RFC3339))
	if !m.EndsAt.IsZero() {
		fmt.Fprintf(b, "  until %s\r\n", m.EndsAt.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(b, "  %s\r\n\r\n", o.page(m.Query))
}

// oneLine replaces line ends and other control characters, which values may have, by blanks.
func oneLine(s string) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s))
}
