package deliver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// A Reply is the result of a call.
type Reply struct {
	Sent, At time.Time     // its beginning and its end
	Status   int           // of HTTP, 0 without an answer; 200 of a receiver that does not speak HTTP and has the message
	Body     []byte        // of HTTP, as much as was asked for and one byte
	Err      error         // why there is no answer
	Said     string        // what failed, of a receiver that is more than an address that speaks HTTP
	Wait     time.Duration // how long the receiver wants no call, zero if it did not say
	Alone    bool          // the failure is about this receiver, so others at its host say nothing about it
	Settled  int           // of a call with several messages: how many of them the receiver has
	Attempts int           // failed attempts so far to deliver the message, of a call that the engine judges
	Verdict  Verdict       // zero if the engine does not judge the call
	Expired  time.Time     // messages that were made until then have waited for as long as the schedule allows
}

// OK reports whether the receiver accepted the call.
func (r Reply) OK() bool { return r.Err == nil && r.Status/100 == 2 }

// timed returns a reply with times: a call that failed before anything was sent has none.
func (r Reply) timed(now time.Time) Reply {
	if r.At.IsZero() {
		r.Sent, r.At = now, now
	}
	return r
}

// refusals are the statuses of HTTP that are about the message or its signature. Another
// message may be accepted.
var refusals = []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
	http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity}

// Refused reports whether the receiver refuses this message.
func (r Reply) Refused() bool { return r.Err == nil && slices.Contains(refusals, r.Status) }

// Problem describes a failure. The text never contains what the receiver sent.
func (r Reply) Problem() string {
	switch {
	case r.OK():
		return ""
	case r.Said != "":
		return r.Said
	case errors.Is(r.Err, ErrForbidden):
		return ErrForbidden.Error()
	case r.Err != nil:
		return describe(r.Err)
	}
	return fmt.Sprintf("the callback answered %d", r.Status)
}

// A Verdict says what becomes of a message.
type Verdict uint8

const (
	Taken  Verdict = iota + 1 // the receiver has it
	Retry                     // it is sent again after a pause
	GiveUp                    // it is set aside, and the next one is sent
	Gone                      // the receiver wants no more messages
)

// A Schedule says when messages are sent again, for all ways. Zero fields get the default.
//
// A message is sent again until the receiver has it or Patience has passed. A receiver that
// refuses a message, with 400, 401, 403, 404, 413, 415 or 422, is asked once more after the
// first pause. Then the message is set aside, and the next one is sent. 410 says that the
// receiver wants no more messages.
//
// One failing subscription of each host is tried again after Probe, however long its pause
// is. Once a host has accepted a message, all its failing subscriptions are tried.
type Schedule struct {
	Pauses   []time.Duration // after consecutive failures; the last one repeats; default 5 s to 1 h
	Patience time.Duration   // default 3 days
	Probe    time.Duration   // default 30 s
}

// mostWait is the longest pause that a receiver can ask for.
const mostWait = 6 * time.Hour

// mostRefusals is how often a receiver is sent a message that it refuses.
const mostRefusals = 2

func (p *Schedule) fill() {
	if len(p.Pauses) == 0 {
		p.Pauses = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}
	}
	p.Patience = cmp.Or(p.Patience, 3*24*time.Hour)
	p.Probe = cmp.Or(p.Probe, 30*time.Second)
}

// judge records a reply in its subscription and decides what becomes of the message.
func (p *Schedule) judge(s *registry.Subscription, c *Call, r Reply) Verdict {
	if r.OK() {
		Delivered(s, r, c.Asks)
		return Taken
	}
	if r.Settled > 0 {
		Delivered(s, r, c.Asks)
	}
	refused := r.Refused() && !c.Insist && !c.Asks
	if refused { // the receiver answers: there is no need to spare it
		failed(s, r, p.Pauses[0])
	} else {
		failed(s, r, cmp.Or(min(r.Wait, mostWait), p.Pauses[min(max(s.Failures, 0), len(p.Pauses)-1)])) // a damaged store may have fewer than 0
	}
	if !c.Asks {
		s.Attempts++
	}
	since := *s.FailingSince
	if c.Since.After(since) && !c.Since.After(r.At) { // else the clock was set back
		since = c.Since
	}
	switch {
	case r.Status == http.StatusGone:
		return Gone
	case refused && s.Refusals+1 >= mostRefusals:
		s.Refusals, s.NextTry = 0, nil
		return GiveUp
	case r.At.Sub(since) >= p.Patience:
		s.Refusals = 0
		return GiveUp
	case refused:
		s.Refusals++
	}
	return Retry
}

// Delivered records an accepted delivery, or an accepted question.
func Delivered(s *registry.Subscription, r Reply, asks bool) {
	s.Failures, s.Attempts, s.Refusals, s.FailingSince, s.LastError, s.NextTry, s.Asked = 0, 0, 0, nil, "", nil, false
	s.LastAttempt = new(r.At.UTC())
	if !asks {
		s.LastDelivery = s.LastAttempt
		s.Deliveries++
	}
}

// mostDeadLetters is the largest number of dead letters of a subscription.
const mostDeadLetters = 50

// Bury sets a message aside after its last reply. Beyond a number of dead letters the oldest is dropped.
func Bury(s *registry.Subscription, m registry.OutboxMessage, seq uint64, r Reply) {
	s.GaveUp++
	s.Dead = append(s.Dead, registry.DeadLetter{OutboxMessage: m, Seq: seq, Attempts: r.Attempts, Error: r.Problem(), GivenUp: r.At.UTC()})
	for len(s.Dead) > mostDeadLetters {
		if s.Dead[0].Seq > 0 {
			s.Drop = append(s.Drop, s.Dead[0].Seq)
		}
		s.Dead = s.Dead[1:]
	}
}

// mostReplay is how long a dead letter is sent again to a receiver that asks for pauses.
const mostReplay = 24 * time.Hour

// Replayed records the outcome of sending a dead letter again, and reports whether it is
// delivered. Each replay is one attempt, unless the receiver asks for a pause: the letter is then sent again after it, for as long
// as the receiver has failed for less than a day.
func Replayed(s *registry.Subscription, letter string, r Reply) bool {
	at := slices.IndexFunc(s.Dead, func(d registry.DeadLetter) bool { return d.ID == letter })
	if r.OK() {
		Delivered(s, r, false)
		if at >= 0 {
			s.Dead = slices.Delete(s.Dead, at, at+1)
		}
		return true
	}
	later := r.Wait > 0
	if later {
		failed(s, r, min(r.Wait, mostWait))
		later = r.At.Sub(*s.FailingSince) < mostReplay
	}
	if at >= 0 {
		d := &s.Dead[at]
		d.Replay, d.Error = later, r.Problem()
		d.Attempts++
	}
	if r.Status == http.StatusGone {
		Disable(s, GoneReason(r))
	}
	return false
}

// GoneReason says why a receiver is disabled that wants no more messages.
func GoneReason(r Reply) string { return cmp.Or(r.Said, ReasonGone) }

// ReasonGone is why a receiver is disabled that wants no more messages.
const ReasonGone = "the endpoint answered 410 Gone"

// Disable stops deliveries until they are resumed.
func Disable(s *registry.Subscription, reason string) {
	s.State, s.Reason, s.NextTry = registry.Disabled, reason, nil
}

// mostApart is the longest time between two attempts that counts as time in which a receiver failed.
const mostApart = 24 * time.Hour

// failed records a failed attempt and sets the time of the next try. The pause is lengthened
// by a random tenth at most, so that callbacks that failed together are not retried together.
func failed(s *registry.Subscription, r Reply, pause time.Duration) {
	pause += time.Duration(rand.Int64N(int64(pause)/10 + 1))
	s.Failures, s.Asked = max(s.Failures, 0)+1, r.Wait > 0 || r.Alone
	before := r.Sent
	if s.FailingSince == nil {
		s.FailingSince = new(before.UTC())
	} else if s.LastAttempt != nil {
		before = *s.LastAttempt
	}
	if passed := r.At.Round(0).Sub(before.Round(0)); passed < 0 || passed > mostApart { // the clock was set, or the server did not run
		s.FailingSince = new(s.FailingSince.Add(passed).UTC())
	}
	s.LastAttempt, s.LastError, s.NextTry = new(r.At.UTC()), r.Problem(), new(r.At.Add(pause).UTC())
}

// failsFor is how long a receiver may fail before it is disabled.
const failsFor = 5 * 24 * time.Hour

// FailedLong reports whether a receiver that has not accepted a call has failed for so long that it should be disabled.
func FailedLong(s *registry.Subscription, r Reply) bool {
	return s.FailingSince != nil && r.At.Sub(*s.FailingSince) >= failsFor
}

// BackingOff reports whether a subscription's next try is in the future. A last
// attempt in the future means that the clock was set back; the next try is then due.
func BackingOff(s *registry.Subscription, now time.Time) bool {
	return s.NextTry != nil && now.Before(*s.NextTry) && (s.LastAttempt == nil || !s.LastAttempt.After(now))
}

// LastDelivery returns the time of a subscription's last delivery, from which its rate counts: zero if there was none, or if
// it is in the future, because the clock was set back.
func LastDelivery(s *registry.Subscription, now time.Time) time.Time {
	if s.LastDelivery == nil || s.LastDelivery.After(now) {
		return time.Time{}
	}
	return *s.LastDelivery
}

// describe describes an error without the callback's URL, which errors of the HTTP
// client contain.
func describe(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "the callback's host cannot be resolved"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), strings.Contains(err.Error(), "timeout"):
		return "the callback did not answer in time"
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil { // its text contains the server's own address
		err = errors.New(op.Op + ": " + op.Err.Error())
	}
	text := strings.ToValidUTF8(err.Error(), "")
	return text[:min(len(text), 200)]
}
