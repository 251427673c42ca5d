package server

import (
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/config"
)

// A node that waits for its journal names what its kind of journal needs.
func TestRemedyOfJournal(t *testing.T) {
	for journal, want := range map[string]string{
		config.EmbeddedJournal:         "cluster.peers",
		"nats://127.0.0.1:4222":        "JetStream",
		"tls://127.0.0.1:4222":         "JetStream",
		"postgres://127.0.0.1:5432/d":  "PostgreSQL",
		"postgresql://127.0.0.1/d?a=b": "PostgreSQL",
	} {
		m := member{conf: config.Cluster{Journal: journal}}
		for _, word := range []string{"cluster.peers", "JetStream", "PostgreSQL"} {
			if got := m.remedy(); strings.Contains(got, word) != (word == want) {
				t.Errorf("%s: %s", journal, got)
			}
		}
	}
}
