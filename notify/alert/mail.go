// This file sends alerts by e-mail.

package alert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

var _ = known(&kind{Kind: Kind{"email", "address that gets the alerts by e-mail"}, batch: batch, together: true, people: true, send: toMail,
	check: func(o *Options, address string) (string, error) { return address, o.Mail.Check(address) }})

// Mail says how e-mail is sent, and to whom it may go.
type Mail = service.Mail

const mostSubject = 200

func toMail(o *Options, to *registry.Receiver, list []registry.AlertMessage) (send, error) {
	var body strings.Builder
	said := o.named(list)
	for i := range said {
		o.describe(&body, &said[i])
	}
	return o.Mail.Call(service.Letter{ID: together(list), At: list[len(list)-1].At, To: to.Address, Subject: still(list) + subject(said),
		Text: body.String()}, o.Now), nil
}

// still begins what is said about alerts that were told before.
func still(list []registry.AlertMessage) string {
	if list[0].Seq == 0 {
		return "Still "
	}
	return ""
}

// together is the id of a message about alerts. It is another one if others are among them.
func together(list []registry.AlertMessage) string {
	ids := sha256.New()
	for i := range list {
		fmt.Fprintln(ids, list[i].ID)
	}
	return hex.EncodeToString(ids.Sum(nil)[:16])
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
