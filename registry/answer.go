package registry

import (
	"time"

	"github.com/freshet/freshet/diff"
)

// An Answer is the outcome of one execution of a query.
type Answer struct {
	// Outcome is Unchanged if the body is the remembered one; Result is then nil. It
	// is Changed if there is a complete result to compare. Other values say what
	// went wrong.
	Outcome Outcome
	Result  *diff.Result
	Memory  AnswerMemory  // of this answer, if it is complete
	Elapsed time.Duration // from sending the request until the answer was decoded, compared and prepared; 0 if nothing was sent
	Age     time.Duration // of the answer on arrival
	Error   string        // what went wrong, for people
}

// An AnswerMemory is what a client keeps of a query's last complete answer to
// recognise an equal one cheaply. Only the client interprets it. Validators are
// valid only for the request that they were received for.
type AnswerMemory struct {
	Body         [2]uint64 `json:"body,omitzero"` // 128-bit fingerprint of the raw body; zero: unknown
	ETag         string    `json:"etag,omitempty"`
	LastModified string    `json:"last_modified,omitempty"`
	Vars         []string  `json:"vars,omitempty"` // order of the head, which has no meaning and is kept
}
