package service

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// A Quiet says when the next message may be sent. Its zero value allows all.
type Quiet struct {
	every    time.Duration // between two digests
	at       clock         // of a digest each day
	daily    bool
	from, to clock // quiet hours, the same if there are none
	zone     *time.Location
	most     int // messages in an hour, 0 for any number

	// Repeat is how often alerts that still fire come again, 0 for never.
	Repeat time.Duration
}

// A clock is a time of day in minutes.
type clock int

const mostRepeat = 7 * 24 * time.Hour

// mostHour is the largest number of messages in an hour that can be asked for.
const mostHour = 60

// mostQuiet is the largest length of a setting in bytes. The longest names of time zones have about half of it.
const mostQuiet = 64

// ReadQuiet reads settings. Its errors are for their author.
func ReadQuiet(q registry.Quiet) (out Quiet, err error) {
	for _, field := range [][2]string{{"digest", q.Digest}, {"zone", q.Zone}, {"quiet", q.Hours}, {"most", q.Most}, {"repeat", q.Repeat}} {
		if len(field[1]) > mostQuiet { // it is stored as it is
			return out, fmt.Errorf("%s has at most %d bytes", field[0], mostQuiet)
		}
	}
	if out.zone, err = time.LoadLocation(q.Zone); err != nil || q.Zone == "Local" {
		return out, errors.New("zone is a time zone such as Europe/Berlin")
	}
	if q.Digest != "" {
		if out.at, err = readClock(q.Digest); err == nil {
			out.daily = true
		} else if out.every, err = time.ParseDuration(q.Digest); err != nil || out.every < time.Minute || out.every > 24*time.Hour {
			return out, errors.New("digest is a time of day such as 08:00, or a duration from 1m to 24h")
		}
	}
	if q.Hours != "" {
		from, to, _ := strings.Cut(q.Hours, "-")
		out.from, err = readClock(from)
		if err == nil {
			out.to, err = readClock(to)
		}
		if err != nil || out.from == out.to {
			return out, errors.New("quiet is two times of day such as 22:00-07:00")
		}
	}
	if q.Most != "" {
		if out.most, err = strconv.Atoi(q.Most); err != nil || out.most < 1 || out.most > mostHour {
			return out, fmt.Errorf("most is a number of messages in an hour, from 1 to %d", mostHour)
		}
	}
	if q.Repeat != "" {
		if out.Repeat, err = time.ParseDuration(q.Repeat); err != nil || out.Repeat < time.Minute || out.Repeat > mostRepeat {
			return out, errors.New("repeat is a duration from 1m to 168h")
		}
	}
	return out, nil
}

func readClock(text string) (clock, error) {
	t, err := time.Parse("15:04", strings.TrimSpace(text))
	return clock(60*t.Hour() + t.Minute()), err
}

// on returns the time of day on the day of t, and days later.
func (c clock) on(t time.Time, days int) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d+days, int(c)/60, int(c)%60, 0, 0, t.Location())
}

// Next returns when a message may be sent about something that waits since a time: now, or later. recent
// are the times of the last messages.
func (q Quiet) Next(since, now time.Time, recent []time.Time) time.Time {
	at := now
	if since.After(now.Add(time.Minute)) { // the clock was set back: it is not known since when it waits
		q = q.Prompt()
	} else if since.After(now) { // clocks of nodes differ
		since = now
	}
	switch {
	case q.daily:
		due := q.at.on(since.In(q.zone), 0)
		if !due.After(since) {
			due = q.at.on(since.In(q.zone), 1)
		}
		at = later(at, due)
	case q.every > 0:
		at = later(at, since.Truncate(q.every).Add(q.every))
	}
	for range 3 { // each rule may move the time into another one
		if n := len(recent) - q.most; q.most > 0 && n >= 0 && !recent[n].After(now) {
			at = later(at, recent[n].Add(time.Hour))
		}
		at = q.Wake(at)
	}
	return at
}

// Prompt returns the settings without the digest.
func (q Quiet) Prompt() Quiet {
	q.daily, q.every = false, 0
	return q
}

// Wake returns the end of the quiet hours if a time is in them, else the time. It looks at each minute, as
// the time of their end may be missing on a day, or there twice.
func (q Quiet) Wake(at time.Time) time.Time {
	for q.quiet(at) {
		at = at.Truncate(time.Minute).Add(time.Minute)
	}
	return at
}

// quiet reports whether a time is in the quiet hours.
func (q Quiet) quiet(at time.Time) bool {
	local := at.In(q.zone)
	c := clock(60*local.Hour() + local.Minute())
	if q.from <= q.to {
		return q.from <= c && c < q.to
	}
	return q.from <= c || c < q.to
}

// Sent adds the time of a message to those that Next wants.
func (q Quiet) Sent(recent []time.Time, at time.Time) []time.Time {
	if q.most == 0 {
		return nil
	}
	recent = append(recent, at.UTC())
	return recent[max(0, len(recent)-q.most):]
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
