package registry

import "time"

// A QueryFilter narrows a list of queries; zero fields admit everything.
type QueryFilter struct {
	Endpoint string
	State    State
	Tag      string
	Text     string // part of a name, id or query text, case-insensitive
	Holder   string
}

// A ListedQuery is a query and its status, of one moment.
type ListedQuery struct {
	Query  Query
	Status Status
}

// A QueryDigest is the little of a query that long lists are ordered, filtered
// and counted by.
type QueryDigest struct {
	ID, Endpoint         string
	Name                 string   // the first that a holder gave, "" for none
	Tags                 []string // of all holders; shared, as Holders is: not to be changed
	Holders              []string // the callers
	State                State
	CheckedAt, ChangedAt time.Time
	Executions, Changes  uint64
	Median               time.Duration // of the last execution times, 0 for none
	Lately               RecentRuns
}

// RecentRuns sums up the last complete executions that are remembered.
type RecentRuns struct{ Runs, Changed int }

// A ProfileFilter narrows a list of profiles; zero fields admit everything.
type ProfileFilter struct {
	Endpoint string
	Owner    string
	Text     string // part of a name or id, case-insensitive
}

// A ListedProfile is a profile and its status, of one moment.
type ListedProfile struct {
	Profile Profile
	Status  ProfileStatus
}
