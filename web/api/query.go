// Package api holds the resources of the JSON API, without logic: the server writes them, and clients read them.
package api

import (
	"encoding/json"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
)

// A Query is the query resource.
type Query struct {
	ID            string             `json:"id"`
	Endpoint      string             `json:"endpoint"`
	Name          string             `json:"name"` // the caller's own, else the first of any holder
	Form          diff.Form          `json:"form"`
	Ordered       bool               `json:"ordered"`
	Query         string             `json:"query"`
	DefaultGraphs []string           `json:"default_graph_uri,omitempty"`
	NamedGraphs   []string           `json:"named_graph_uri,omitempty"`
	State         registry.State     `json:"state"`
	Epoch         string             `json:"epoch"`
	Seq           uint64             `json:"seq"`
	Hash          *string            `json:"hash"` // null before the first result
	Rows          int                `json:"rows"`
	Boolean       *bool              `json:"boolean,omitempty"` // the answer to ASK
	CheckedAt     *time.Time         `json:"checked_at"`
	ChangedAt     *time.Time         `json:"changed_at"`
	NextDue       *time.Time         `json:"next_due"`
	Executions    uint64             `json:"executions"`
	Changes       uint64             `json:"changes"`
	Median        *float64           `json:"median_seconds"`
	BudgetShare   *float64           `json:"budget_share"` // null before the first complete execution
	Outcome       registry.Outcome   `json:"outcome,omitempty"`
	Error         string             `json:"error,omitempty"`
	FailingSince  *time.Time         `json:"failing_since,omitempty"`
	Failures      int                `json:"failures,omitempty"`
	Warnings      []registry.Warning `json:"warnings"`
	Tags          []string           `json:"tags"` // of all holders, like the following settings
	Weight        float64            `json:"weight"`
	MaxStaleness  registry.Duration  `json:"max_staleness"`
	MinInterval   registry.Duration  `json:"min_interval"`
	Alone         bool               `json:"alone"`
	Public        bool               `json:"public"`
	CreatedAt     time.Time          `json:"created_at"`
	Paused        *registry.Pause    `json:"paused,omitempty"`
	Holders       int                `json:"holders"`
	Registrations []registry.Holder  `json:"registrations"` // the caller's own; all of them for an admin
	Links         QueryLinks         `json:"links"`

	// Proved is what the feed of the endpoint proves about the result, nil if nothing.
	Proved     *feed.Proof `json:"proved,omitempty"`
	Unprovable string      `json:"unprovable,omitempty"` // why it does not, if the endpoint has a feed

	// Only for a single query.
	Template *string `json:"template,omitempty"`
	Merge    *Merge  `json:"merge,omitempty"`
}

type QueryLinks struct {
	Results string `json:"results"`
	Changes string `json:"changes"`
	Hub     string `json:"hub"`
	Live    string `json:"live"`
	Explain string `json:"explain"`
}

// A Merge says whether a query may be asked together with others.
type Merge struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"` // why not
}

// An Analysis is the result of analysing a registration.
type Analysis struct {
	ID         string             `json:"id"`         // the id it would get
	Registered bool               `json:"registered"` // it is already registered
	Endpoint   string             `json:"endpoint"`
	Form       diff.Form          `json:"form"`
	Ordered    bool               `json:"ordered"`
	OrderKeys  []string           `json:"order_keys,omitempty"`
	Limit      *int64             `json:"limit"` // the text's own top-level LIMIT
	Normal     string             `json:"normal"`
	Constants  []string           `json:"constants"`
	Warnings   []registry.Warning `json:"warnings"`
	Run        *Trial             `json:"run,omitempty"`
}

// A Trial is a single execution whose result is not stored.
type Trial struct {
	Outcome string          `json:"outcome"` // complete, or the error
	Elapsed float64         `json:"elapsed_seconds"`
	Rows    *int            `json:"rows,omitempty"` // of the whole result
	Results json.RawMessage `json:"results,omitempty"`
	Error   string          `json:"error,omitempty"`
}
