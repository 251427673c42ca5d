package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// Close codes of freshet.v1. After 40xx a client should reconnect and resume; after
// 44xx it must change something first.
const (
	CloseSlow         = 4001
	CloseExpired      = 4002
	CloseRate         = 4003
	CloseDraining     = 4004
	CloseElsewhere    = 4005 // this node of a cluster is cut off; another one answers
	CloseFull         = 4006 // too many connections
	CloseIdle         = 4007 // nothing is followed, without a token
	CloseMalformed    = 4400
	CloseUnauthorized = 4401
	CloseForbidden    = 4403
	CloseSubprotocol  = 4406
	CloseInitTimeout  = 4408
	CloseInUse        = 4409
	CloseTooMany      = 4429 // a second init
)

// Codes of errors that keep the connection.
const (
	CodeUnknownQuery = "unknown_query"
	CodeAmbiguous    = "ambiguous_name"
	CodeNotAllowed   = "not_allowed"
	CodeBadParams    = "bad_params"
	CodeUnknownID    = "unknown_id"
	CodeLimit        = "limit"
	CodeUnavailable  = "unavailable"
)

var validID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// A request is any message of a client. Type says which fields apply.
type request struct {
	Type    string           `json:"type"`
	ID      string           `json:"id"`
	Token   string           `json:"token"`
	Client  string           `json:"client"`
	Query   json.RawMessage  `json:"query"` // id or name, or {endpoint, sparql}
	text                     // the same without the object around it
	Profile json.RawMessage  `json:"profile"`
	Mode    string           `json:"mode"`
	Resume  *resume          `json:"resume"`
	Rate    *json.RawMessage `json:"rate"`
	Filter  json.RawMessage  `json:"filter"`
	Seq     *uint64          `json:"seq"`
	Payload json.RawMessage  `json:"payload"`
}

type resume struct {
	Epoch string  `json:"epoch"`
	Seq   *uint64 `json:"seq"`
}

// A target is the query that a subscription follows, by reference or by text.
type target struct {
	ref string
	text
}

// A text is a query that is registered and followed in one step.
type text struct {
	Endpoint string `json:"endpoint"`
	SPARQL   string `json:"sparql"`
}

// A closing ends the connection with a code and a reason.
type closing struct {
	code   int
	reason string
}

func (c *closing) Error() string { return fmt.Sprintf("close %d: %s", c.code, c.reason) }

// A refusal is an error message to the client that keeps the connection.
type refusal struct {
	id            string // of the subscription concerned, if one is
	code, message string
	retryAfter    time.Duration
}

func (r *refusal) Error() string { return r.code + ": " + r.message }

func badParams(format string, args ...any) error {
	return &refusal{code: CodeBadParams, message: fmt.Sprintf(format, args...)}
}

// parseRequest decodes one frame. The error is a *closing if the frame is not a JSON
// object with a type, and a *refusal if a field has the wrong type; the request then
// has the other fields.
func parseRequest(frame []byte) (r request, err error) {
	err = json.Unmarshal(frame, &r)
	switch wrong := (*json.UnmarshalTypeError)(nil); {
	case r.Type == "" || err != nil && !errors.As(err, &wrong):
		return r, &closing{CloseMalformed, "not a JSON object with a string \"type\""}
	case err != nil:
		return r, badParams("%s: %v", r.Type, err)
	}
	return r, nil
}

func (r *request) target() (target, error) {
	var t target
	if len(r.Query) == 0 && r.SPARQL != "" {
		t.text = r.text
		return t, nil
	}
	if len(r.Query) == 0 {
		return t, badParams("query is missing")
	}
	if json.Unmarshal(r.Query, &t.ref) == nil && t.ref != "" {
		return t, nil
	}
	if json.Unmarshal(r.Query, &t.text) != nil || t.SPARQL == "" {
		return t, badParams("query must be an id, a name, or {endpoint, sparql}")
	}
	return t, nil
}

// position returns the position to resume from. ok is false if the client does not
// resume.
func (r *request) position() (p registry.Position, ok bool, err error) {
	if r.Resume == nil {
		return p, false, nil
	}
	if r.Resume.Seq != nil {
		p, err = registry.ParsePosition(registry.Position{Epoch: r.Resume.Epoch, Seq: *r.Resume.Seq}.String())
	}
	if r.Resume.Seq == nil || err != nil {
		return p, false, badParams("resume needs the epoch and the seq (an integer below 2^53) of a message")
	}
	return p, true, nil
}

func (r *request) snapshotMode() (bool, error) {
	switch r.Mode {
	case "", "delta":
		return false, nil
	case "snapshot":
		return true, nil
	}
	return false, badParams("mode must be \"delta\" or \"snapshot\"")
}

func (r *request) rate() (time.Duration, error) {
	var d registry.Duration
	if r.Rate == nil {
		return 0, nil
	}
	if err := json.Unmarshal(*r.Rate, &d); err != nil {
		return 0, badParams("%s: %v", r.Type, err)
	}
	if d := time.Duration(d); d <= cursor.MaxRate {
		return d, nil
	}
	return 0, badParams("rate must be at most %s", cursor.MaxRate)
}

// tooMany is the refusal of a subscription beyond a limit. It says when to ask again, because other messages make clients
// ask soon.
func tooMany(message string) error {
	return &refusal{code: CodeLimit, message: message, retryAfter: 10 * time.Second}
}

// ambiguous is the refusal of a name that several have, nil for other errors.
func ambiguous(err error) error {
	if p := (*registry.Problem)(nil); errors.As(err, &p) && p.Kind == registry.KindAmbiguousName {
		return &refusal{code: CodeAmbiguous, message: p.Detail}
	}
	return nil
}
