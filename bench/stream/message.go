package stream

import (
	"encoding/json"
	"strings"
	"time"
)

// A Message is one message of a stream.
type Message struct {
	Topic  string
	Offset int64
	Time   time.Time
	Data   []byte // JSON
}

type rdfData struct {
	Data string `json:"data"`
	Type string `json:"mime_type"`
}

type meta struct {
	Domain    string    `json:"domain"`
	Stream    string    `json:"stream"`
	Time      time.Time `json:"dt"`
	RequestID string    `json:"request_id"`
	Topic     string    `json:"topic"`
	Partition int       `json:"partition"`
	Offset    int64     `json:"offset"`
}

type body struct {
	Schema    string    `json:"$schema"`
	Meta      meta      `json:"meta"`
	Entity    string    `json:"entity_id"`
	Revision  int64     `json:"rev_id"`
	Time      time.Time `json:"dt"`
	Operation string    `json:"operation"`
	Sequence  int       `json:"sequence"`
	Length    int       `json:"sequence_length"`
	Added     *rdfData  `json:"rdf_added_data,omitempty"`
	Deleted   *rdfData  `json:"rdf_deleted_data,omitempty"`
	Linked    *rdfData  `json:"rdf_linked_shared_data,omitempty"`
	Unlinked  *rdfData  `json:"rdf_unlinked_shared_data,omitempty"`
}

// chunkOf is how many triples of a part are in one message.
const chunkOf = 200

// messages returns the messages of a change, chunks of it if it is large. The first one has the given offset.
func (c *Change) messages(topic string, offset int64, published, edited time.Time) (list []Message) {
	longest := max(len(c.Added), len(c.Deleted), len(c.Linked), len(c.Unlinked), 1)
	chunks := (longest + chunkOf - 1) / chunkOf
	for n := range chunks {
		part := func(triples []Triple) *rdfData {
			from, to := min(n*chunkOf, len(triples)), min((n+1)*chunkOf, len(triples))
			if from == to {
				return nil
			}
			var b strings.Builder
			for _, t := range triples[from:to] {
				b.WriteString(t.String() + "\n")
			}
			return &rdfData{b.String(), "text/turtle"}
		}
		at := offset + int64(n)
		m := body{Schema: "/mediawiki/wikibase/entity/rdf_change/2.0.0", Entity: c.Entity, Revision: c.Revision, Time: edited,
			Operation: c.Operation, Sequence: n, Length: chunks,
			Meta:  meta{"www.wikidata.org", "rdf-streaming-updater.mutation-main.v2", published, c.Entity, topic, 0, at},
			Added: part(c.Added), Deleted: part(c.Deleted), Linked: part(c.Linked), Unlinked: part(c.Unlinked)}
		data, err := json.Marshal(m)
		if err != nil { // strings and numbers
			panic(err)
		}
		list = append(list, Message{topic, at, published, data})
	}
	return list
}
