package api

import (
	"time"

	"github.com/freshet/freshet/registry/watch"
)

// A Watch is the watch resource.
type Watch struct {
	ID string `json:"id"`
	watch.Watch
	Describes string `json:"describes"`     // for people
	Now       string `json:"now,omitempty"` // the result in words; only for a single watch
	Query     Query  `json:"query"`
}

// A WatchPreview shows what would be watched.
type WatchPreview struct {
	watch.Watch
	Describes string   `json:"describes"`
	Query     string   `json:"query"`
	Analysis  Analysis `json:"analysis"`
}

// A WatchChange is a change for people.
type WatchChange struct {
	Epoch     string    `json:"epoch"`
	Prev      uint64    `json:"prev"`
	Seq       uint64    `json:"seq"`
	Time      time.Time `json:"time"`
	CheckedAt time.Time `json:"checked_at"`
	Baseline  bool      `json:"baseline,omitempty"`
	Added     int       `json:"added"` // rows
	Removed   int       `json:"removed"`
	Summary   []string  `json:"summary"`
}
