// This file lists, sends again and drops the messages that were given up.

package web

import (
	"net/http"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

func deadLetterOf(d *registry.DeadLetter) api.DeadLetter {
	return api.DeadLetter{ID: d.ID, Type: d.Type, Epoch: d.Until.Epoch, Prev: d.From.Seq, Seq: d.Until.Seq,
		Time: d.At, Attempts: d.Attempts, Error: d.Error, GivenUpAt: d.GivenUp, Summary: d.Summary, Replay: d.Replay}
}

// listLetters lists the dead letters of all of the caller's subscriptions.
func (c followerAPI) listLetters() error {
	list, next, err := c.collect(func(s registry.Subscription) bool { return len(s.Dead) > 0 })
	if err != nil {
		return err
	}
	views := make([]api.LetterBox, len(list))
	for i, s := range list {
		views[i] = api.LetterBox{Subscription: s.ID, Way: s.Way, Callback: MaskedCallback(s.Callback)}
		for k := range s.Dead {
			views[i].DeadLetters = append(views[i].DeadLetters, deadLetterOf(&s.Dead[k]))
		}
	}
	return c.page("subscriptions", views, next, "limit")
}

func (c followerAPI) resendLetter(s registry.Subscription) error {
	s, err := c.DeadLetters.Resend(s.ID, c.r.PathValue("letter"))
	if missing(err) {
		return errNoLetter
	} else if err != nil {
		return err
	}
	v, err := c.view(s)
	return c.reply(http.StatusAccepted, v, err)
}

func (c followerAPI) dropLetter(s registry.Subscription) error {
	if _, err := c.DeadLetters.DropLetter(s.ID, c.r.PathValue("letter")); missing(err) {
		return errNoLetter
	} else if err != nil {
		return err
	}
	return c.noContent()
}

var errNoLetter = notFound("the subscription has no such dead letter")
