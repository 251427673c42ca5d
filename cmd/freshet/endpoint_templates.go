package main

// This file holds `freshet endpoint templates`, which lists the templates of merged requests.

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/scheduler/cohort"
)

func (a endpointCommands) templates() *cobra.Command {
	return &cobra.Command{Use: "templates NAME", Short: "Show how queries that differ in constants only are asked", Args: cobra.ExactArgs(1),
		Long: `Show the templates of an endpoint's queries: how many queries each has, how they were
asked last (single, values, union or probe), how long a request for one more query and one more
row takes, how many requests said nothing about their queries (void), how many queries are always
asked alone, and the audits that compared merged answers with the answer of a query alone.`,
		Example: "  freshet endpoint templates coins",
		RunE: func(c *cobra.Command, args []string) error {
			return printTable(c.Context(), a.api, endpointPath(args[0])+"/templates", "templates", "TEMPLATE\tQUERIES\tKIND\tREQUESTS\tASKED\tPER REQUEST\tPER QUERY\tPER ROW\tVOID\tALONE\tAUDITS\tDIFFERENT\tOFF UNTIL", func(s cohort.Snapshot) []any {
				requests, asked, void := uint64(0), uint64(0), uint64(0)
				for _, k := range cohort.Kinds() {
					requests, asked, void = requests+s.Asks[k], asked+s.Asked[k], void+s.Void[k]
				}
				var off []string
				for _, k := range cohort.Kinds() {
					if until, ok := s.OffUntil[k]; ok {
						off = append(off, string(k)+" "+until.UTC().Format(time.RFC3339))
					}
				}
				return []any{s.Template, s.Members, s.Kind, requests, asked, milliseconds(s.A), milliseconds(s.B), milliseconds(s.C), void, s.Alone, s.Audits, s.Different, strings.Join(off, ", ")}
			})
		}}
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.3g ms", 1000*seconds) }
