package api

import (
	"encoding/json"
	"time"

	"github.com/freshet/freshet/diff"
)

// A Difference is the net change between two states of a result.
type Difference struct {
	Query   string          `json:"query"`
	From    Version         `json:"from"`
	To      Version         `json:"to"`
	Form    diff.Form       `json:"form"`
	Jaccard float64         `json:"jaccard"`
	Hash    string          `json:"hash"`
	Before  string          `json:"previous_hash"`
	Added   json.RawMessage `json:"added,omitempty"`
	Removed json.RawMessage `json:"removed,omitempty"`
	AddedAt *[]int          `json:"added_at,omitempty"`
	GoneAt  *[]int          `json:"removed_at,omitempty"`
	Boolean *bool           `json:"boolean,omitempty"`
	Was     *bool           `json:"previous,omitempty"`
}

// A Version is a state of a result.
type Version struct {
	Epoch     string    `json:"epoch"`
	Seq       uint64    `json:"seq"`
	Time      time.Time `json:"time"`
	CheckedAt time.Time `json:"checked_at"`
}
