package main

// This file holds `freshet endpoint templates`, which lists the templates of merged requests.

import (
	"fmt"
	"strings"
	"time"

	"github.com/freshet/freshet/scheduler/cohort"
)

var templatesRow = row{use: "templates NAME", short: "Show how queries that differ in constants only are asked",
	long: `Show the templates of an endpoint's queries: how many queries each has, how they were
asked last (single, values, union or probe), how long a request for one more query and one more
row takes, how many requests said nothing about their queries (void), how many queries are always
asked alone, and the audits that compared merged answers with the answer of a query alone.`,
	example: "freshet endpoint templates coins", call: "GET /v1/endpoints/{}/templates",
	out: printList("templates",
		"TEMPLATE\tQUERIES\tKIND\tREQUESTS\tASKED\tPER REQUEST\tPER QUERY\tPER ROW\tVOID\tALONE\tAUDITS\tDIFFERENT\tOFF UNTIL",
		func(s cohort.Snapshot) []any {
			requests, asked, void := uint64(0), uint64(0), uint64(0)
			var off []string
			for _, k := range cohort.Kinds() {
				requests, asked, void = requests+s.Asks[k], asked+s.Asked[k], void+s.Void[k]
				if until, ok := s.OffUntil[k]; ok {
					off = append(off, string(k)+" "+until.UTC().Format(time.RFC3339))
				}
			}
			return []any{s.Template, s.Members, s.Kind, requests, asked, milliseconds(s.A), milliseconds(s.B), milliseconds(s.C), void, s.Alone,
				s.Audits, s.Different, strings.Join(off, ", ")}
		})}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.3g ms", 1000*seconds) }
