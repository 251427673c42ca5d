package main

// This file holds `freshet endpoint shadow`, which compares the policy of an endpoint with
// others.

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/scheduler/shadow"
)

func (a endpointCommands) shadow() *cobra.Command {
	c := &cobra.Command{Use: "shadow", Short: "Compare an endpoint's policy with others over what is recorded",
		Long: `Compares an endpoint's policy with others: what each would have executed, found,
missed and delayed in the recorded slots, under the same budget. No requests are
sent to the endpoint. Figures are means over possible histories that fit the
records, with the minimum and maximum if these differ. Changes are the estimated
number of all changes, including those that no execution found in time.`,
		Example: "  freshet endpoint shadow add coins dj ttl:max=32:reset\n  freshet endpoint shadow list coins\n  freshet endpoint shadow rm coins dj"}
	change := func(method, done string, request func(name, policy string) (path string, body any)) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			for _, policy := range args[1:] {
				path, body := request(args[0], policy)
				if err := a.change(c.Context(), method, path, body, policy, done); err != nil {
					return err
				}
			}
			return nil
		}
	}
	c.AddCommand(
		&cobra.Command{Use: "add NAME POLICY...", Short: "Choose policies to compare with", Args: cobra.MinimumNArgs(2),
			Example: "  freshet endpoint shadow add coins rr dj", RunE: change(http.MethodPost, "added", func(name, policy string) (string, any) {
				return shadowsPath(name), map[string]any{"policy": policy}
			})},
		&cobra.Command{Use: "list NAME", Short: "Show the comparison", Args: cobra.ExactArgs(1),
			Example: "  freshet endpoint shadow list coins --json", RunE: func(c *cobra.Command, args []string) error {
				return showAs(c.Context(), a.api, http.MethodGet, shadowsPath(args[0]), nil, func(s shadow.Comparison) error { return printShadows(a.w.Stdout, s) })
			}},
		&cobra.Command{Use: "rm NAME POLICY...", Short: "Remove policies from the comparison", Args: cobra.MinimumNArgs(2),
			Example: "  freshet endpoint shadow rm coins rr", RunE: change(http.MethodDelete, "removed", func(name, policy string) (string, any) {
				return shadowsPath(name) + "?policy=" + url.QueryEscape(policy), nil
			})},
	)
	return c
}

func shadowsPath(name string) string { return endpointPath(name) + "/shadows" }

func printShadows(w io.Writer, s shadow.Comparison) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "POLICY\tCURRENT\tSLOTS\tEXECUTIONS\tCHANGES\tFOUND\tMISSED\tDELAY\tUSED")
	for _, p := range s.Policies {
		current := ""
		if p.Current {
			current = "yes"
		}
		if p.Estimate == nil {
			fmt.Fprintf(t, "%s\t%s\tnothing is recorded yet\n", p.Policy, current)
			continue
		}
		e := p.Estimate
		fmt.Fprintf(t, "%s\t%s\t%d-%d\t%s\t%s\t%s\t%s\t%s slots\t%s s\n", p.Policy, current, e.From, e.To, spread(e.Total), spread(e.Changes), spread(e.Relevant),
			spread(e.Missed), spread(e.Delay), spread(e.Used))
	}
	return t.Flush()
}

// spread writes an estimate with its range.
func spread(e shadow.Estimate) string {
	if e.Low == e.High {
		return fmt.Sprintf("%.4g", e.Mean)
	}
	return fmt.Sprintf("%.4g (%.4g to %.4g)", e.Mean, e.Low, e.High)
}
