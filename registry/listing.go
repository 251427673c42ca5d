package registry

import (
	"iter"
	"time"
)

// A QueryFilter narrows a list of queries. Zero fields match everything.
type QueryFilter struct {
	Endpoint string
	State    State
	Tag      string
	Text     string // part of a name, id or query text, case-insensitive
	Holder   string
}

// A ListedQuery is a query with its status at the same moment.
type ListedQuery struct {
	Query  Query
	Status Status
}

// A QueryDigest holds the fields by which long lists of queries are ordered, filtered
// and counted.
type QueryDigest struct {
	ID, Endpoint         string
	Name                 string   // the first name given by a holder, "" if there is none
	Tags                 []string // of all holders; shared like Holders, so it must not be modified
	Holders              []string // names of the callers
	State                State
	CheckedAt, ChangedAt time.Time
	Executions, Changes  uint64
	Median               time.Duration // of the last execution times, 0 if there are none
	Lately               RecentRuns
}

// RecentRuns counts the remembered complete executions and those that found a change.
type RecentRuns struct{ Runs, Changed int }

// A ProfileFilter narrows a list of profiles. Zero fields match everything.
type ProfileFilter struct {
	Endpoint string
	Owner    string
	Text     string // part of a name or id, case-insensitive
}

// A ListedProfile is a profile with its status at the same moment.
type ListedProfile struct {
	Profile Profile
	Status  ProfileStatus
}

// EachSubscription goes through all subscriptions after an id, "" for all, in id order. page returns at most limit of them. An error
// is the last value.
func EachSubscription(page func(after string, limit int) ([]Subscription, error), after string) iter.Seq2[Subscription, error] {
	return func(yield func(Subscription, error) bool) {
		for {
			list, err := page(after, 500)
			if err != nil {
				yield(Subscription{}, err)
			}
			if err != nil || len(list) == 0 {
				return
			}
			for _, s := range list {
				if !yield(s, nil) {
					return
				}
			}
			after = list[len(list)-1].ID
		}
	}
}
