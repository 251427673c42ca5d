package feed

import (
	"cmp"
	"time"

	"github.com/freshet/freshet/registry"
)

// A Kind is the protocol of a feed.
type Kind string

// The kinds of feeds.
const (
	Wikimedia  Kind = "wikimedia"  // server-sent events after the schema rdf_change of Wikimedia
	LDES       Kind = "ldes"       // Linked Data Event Streams: pages of RDF
	RDFPatch   Kind = "rdf-patch"  // a log of RDF patches by version
	Changesets Kind = "changesets" // files in the layout of DBpedia Live
	Deltas     Kind = "deltas"     // sent to POST /v1/feeds/{name}; it has no positions
)

// A Definition is a feed in the configuration. The names are those of the file and the API.
type Definition struct {
	Name    string `json:"name" yaml:"name"`
	Kind    Kind   `json:"kind" yaml:"kind"`
	URL     string `json:"url,omitempty" yaml:"url,omitempty"`
	Contact string `json:"contact,omitempty" yaml:"contact,omitempty"` // in the header User-Agent, where the rules of a server want one
	// Headers are sent with each request, such as what the server wants to know who asks.
	Headers map[string]string `json:"headers,omitempty" yaml:"headers,omitempty"`
	// Topic restricts the feed to the topics with this name or beginning, where one connection
	// brings several.
	Topic string `json:"topic,omitempty" yaml:"topic,omitempty"`
	// Since is the publication time at which the feed begins when it is read for the first time, zero for now. RDF
	// patches have no times: any time means the first version.
	Since time.Time `json:"since,omitzero" yaml:"since,omitempty"`
	// Every is how often a feed without a connection is asked, 0 for the default of its kind.
	Every registry.Duration `json:"every,omitempty" yaml:"every,omitempty"`
	// Silence is how long a feed may send nothing at all and still be believed, 0 for the default of its kind.
	Silence registry.Duration `json:"silence,omitempty" yaml:"silence,omitempty"`
}

// Dated reports whether the events of a kind have times of publication. Those of other kinds have the time at which they
// were read.
func (k Kind) Dated() bool { return k == Wikimedia }

// Interval is how often a feed is asked, 0 if it has a connection or is sent. A stream of the kind LDES may say that it
// wants to be asked more seldom.
func (d Definition) Interval() time.Duration {
	switch d.Kind {
	case LDES:
		return cmp.Or(time.Duration(d.Every), time.Minute)
	case RDFPatch, Changesets:
		return cmp.Or(time.Duration(d.Every), 10*time.Second)
	}
	return 0
}

// Masked returns d without what may be a secret: the values of the query of its URL, and those of its headers.
func (d Definition) Masked() Definition {
	d.Headers, d.URL = registry.MaskHeaders(d.Headers), registry.MaskedURL(d.URL)
	return d
}

// The states of a feed.
const (
	Live    = "live"    // everything up to its position is known
	Behind  = "behind"  // events wait to be read
	Gap     = "gap"     // events are missing; it is live again once the results have been asked for
	Silent  = "silent"  // nothing came for longer than Silence
	Failing = "failing" // it cannot be read
)

// A Status says how a feed is doing.
type Status struct {
	Definition
	State string `json:"state"`
	// Error is why it is failing, or what the gap is.
	Error    string    `json:"error,omitempty"`
	Since    time.Time `json:"state_since,omitzero"`
	Position Place     `json:"position,omitzero"` // of the last event
	Heard    time.Time `json:"heard_at,omitzero"` // when it last sent an event or a heartbeat
	// LagSeconds is how long the last event took from publication to here, nil for kinds whose events have no times.
	LagSeconds *float64 `json:"lag_seconds,omitempty"`
	Events     uint64   `json:"events"`   // since the feed exists, as the next ones
	Matched    uint64   `json:"matched"`  // how often an event matched a query
	Possible   uint64   `json:"possible"` // how often an event may have touched a query
	Gaps       uint64   `json:"gaps"`
	Duplicates uint64   `json:"duplicates"`
	Owner      string   `json:"owner,omitempty"` // the node that reads it, in a cluster
	Endpoints  []string `json:"endpoints,omitempty"`
	// EndpointLags are the delays after which half of the events had shown at an endpoint, in seconds: of those
	// endpoints where that was learnt.
	EndpointLags map[string]float64 `json:"endpoint_lags,omitempty"`
	// Wrong are the proofs that were wrong, of endpoints where nothing is proved because of that.
	Wrong []Wrong `json:"wrong,omitempty"`
}

// A Wrong is a proof that was wrong: a result that differs although no event reached its query.
type Wrong struct {
	Endpoint string    `json:"endpoint"`
	Query    string    `json:"query"`
	At       time.Time `json:"at"`
	Was      string    `json:"was"` // the beginnings of what differs in both answers
	Now      string    `json:"now"`
	Until    time.Time `json:"until"` // nothing is proved there until then
}
