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

	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
)

var _ = known(&kind{Kind: Kind{"email", "address that gets the alerts by e-mail"}, batch: batch, together: true, people: true, send: toMail,
	check: func(o *Options, address string) (string, error) { return address, o.Mail.Check(address) }})

// Mail says how e-mail is sent, and to whom it may go.
type Mail = service.Mail

// mostWords is the number of characters of a summary or a label in an e-mail. Few have as many.
const mostWords = 4000

func toMail(o *Options, to *registry.Receiver, list []registry.AlertMessage) (send, error) {
	var body strings.Builder
	said := o.named(list)
	for i := range said {
		o.describe(&body, &said[i])
	}
	return o.Mail.Call(service.Letter{ID: together(list), At: list[len(list)-1].At, To: to.Address, Subject: subject(said),
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

func subject(list []registry.AlertMessage) string {
	if len(list) == 1 {
		m := &list[0]
		return watch.Line(fmt.Sprintf("%s[%s] %s%s", still(list), strings.ToUpper(string(m.State)), m.Name,
			strings.TrimSuffix(": "+m.Summary, ": ")), mostLine)
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
	return watch.Line(fmt.Sprintf("%s[%s] %s", still(list), strings.Join(states, " "), strings.Join(slices.Sorted(maps.Keys(names)), ", ")),
		mostLine)
}

func (o *Options) describe(b *strings.Builder, m *registry.AlertMessage) {
	fmt.Fprintf(b, "%s %s\r\n", strings.ToUpper(string(m.State)), m.Name)
	if s := watch.Line(m.Summary, mostWords); s != "" {
		fmt.Fprintf(b, "  %s\r\n", s)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		fmt.Fprintf(b, "  %s=%s\r\n", name, watch.Line(m.Labels[name], mostWords))
	}
	fmt.Fprintf(b, "  since %s\r\n", m.StartsAt.UTC().Format(time.RFC3339))
	if !m.EndsAt.IsZero() {
		fmt.Fprintf(b, "  until %s\r\n", m.EndsAt.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(b, "  %s\r\n\r\n", o.page(m.Query))
}
