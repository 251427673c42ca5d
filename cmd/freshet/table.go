package main

// This file makes commands from rows of tables. A new command that calls the API and prints the answer is a row of
// the table of its subject.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
)

// A row is a command of a table: a request and how its answer is printed, or a group of rows.
type row struct {
	use, short, long, example string
	alias                     string
	// call is the method and the path of the request, with {} for each argument. If use ends in "...",
	// there is a request for each of the last arguments.
	call  string
	arg   string   // the member of the body that the last argument sets
	flags []option // of the request
	one   []string // names of flags that exclude each other
	// body completes the members of the request that the flags set, if they do not suffice.
	body func(a *remote, c *cobra.Command, args []string, body map[string]any) error
	out  printer
	run  func(a *remote, c *cobra.Command, args []string) error // in place of call
	rows []row
	// conf is in place of call, too, and gets the flags of the configuration.
	conf  func(a *remote, c *cobra.Command, s *config.Flags) error
	local string // what --json does in a command that talks to no server
}

// An option is a flag that sets a member of the body, or a parameter of a GET or DELETE request.
type option struct {
	name   string
	value  any // the default, which gives the type
	usage  string
	member string // the name with underscores if it is empty; "-" for none, and ?name for a parameter
}

// The values of flags that may be given several times. Commas also separate commaTexts.
type (
	texts      []string
	commaTexts []string
)

// A variable is a default that the environment gives.
type variable func(getenv func(string) string) string

// contact is the default of --contact, and dataDirectory that of --data.
func contact(getenv func(string) string) string { return getenv("FRESHET_CONTACT") }

func dataDirectory(getenv func(string) string) string {
	return cmp.Or(getenv(config.Variable("data")), config.Default().Data)
}

// A sending is a request, and the object that it is about.
type sending struct {
	method, path string
	body         any
	ref          string
}

// A printer sends a request and prints the answer.
type printer func(ctx context.Context, a *remote, r sending) error

// tableCommand returns the command of a row, with the flags of all commands that talk to a server unless it is local.
func tableCommand(w *cli.Env, x row) *cobra.Command {
	a := &remote{w: w}
	c := &cobra.Command{}
	if x.local == "" {
		a.flags(c)
	} else {
		c.PersistentFlags().BoolVar(&a.asJSON, "json", false, x.local)
	}
	a.describe(c, x)
	return c
}

func (a *remote) describe(c *cobra.Command, x row) {
	c.Use, c.Short, c.Long, c.Example = x.use, x.short, x.long, indented(x.example)
	if x.alias != "" {
		c.Aliases = []string{x.alias}
	}
	for _, below := range x.rows {
		sub := &cobra.Command{}
		a.describe(sub, below)
		c.AddCommand(sub)
	}
	flags := c.Flags()
	if x.rows != nil { // they are those of all its rows
		flags = c.PersistentFlags()
	}
	for _, f := range x.flags {
		f.register(flags, a.w)
	}
	for _, names := range x.one {
		c.MarkFlagsMutuallyExclusive(strings.Fields(names)...)
	}
	var s config.Flags
	if x.conf != nil {
		s.Register(c)
	}
	if x.rows == nil {
		c.Args = arguments(x.use)
		c.RunE = func(c *cobra.Command, args []string) error {
			switch {
			case x.conf != nil:
				return x.conf(a, c, &s)
			case x.run != nil:
				return x.run(a, c, args)
			}
			return a.sendEach(x, c, args)
		}
	}
}

func indented(text string) string {
	return strings.TrimSuffix("  "+strings.ReplaceAll(text, "\n", "\n  "), "  ")
}

// arguments returns the check of the arguments that a use names.
func arguments(use string) cobra.PositionalArgs {
	names := strings.Fields(use)[1:]
	needed := 0
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			needed++
		}
	}
	switch {
	case strings.Contains(use, "..."):
		return cobra.MinimumNArgs(needed)
	case needed == len(names):
		return cobra.ExactArgs(needed)
	}
	return cobra.RangeArgs(needed, len(names))
}

// sendEach sends the requests of a row: one, or one for each of the last arguments.
func (a *remote) sendEach(x row, c *cobra.Command, args []string) error {
	fixed, rounds := len(args), 1
	if strings.HasSuffix(x.use, "...") {
		fixed = len(strings.Fields(x.use)) - 2
		rounds = len(args) - fixed
	}
	for i := range rounds {
		of := args
		if fixed < len(args) {
			of = append(slices.Clone(args[:fixed]), args[fixed+i])
		}
		r, err := x.request(a, c, of)
		if err != nil {
			return err
		}
		if err := x.out(c.Context(), a, r); err != nil {
			return err
		}
	}
	return nil
}

// request returns the request of a row.
func (x row) request(a *remote, c *cobra.Command, args []string) (r sending, err error) {
	r.method, r.path, _ = strings.Cut(x.call, " ")
	for _, arg := range args {
		before, after, ok := strings.Cut(r.path, "{}")
		switch {
		case strings.Contains(before, "?"):
			r.path = before + url.QueryEscape(arg) + after
		case ok:
			r.path = before + url.PathEscape(arg) + after
		}
		r.ref = arg
	}
	body, parameters, err := x.given(c)
	if err != nil {
		return r, err
	}
	r.path = withParameters(r.path, parameters)
	if x.arg != "" {
		body[x.arg] = r.ref
	}
	if x.body != nil {
		err = x.body(a, c, args, body)
	}
	if r.method != http.MethodGet && r.method != http.MethodDelete && (len(x.flags) > 0 || len(body) > 0) {
		r.body = body
	}
	return r, err
}

// register adds the flag to a set.
func (f option) register(s *pflag.FlagSet, w *cli.Env) {
	switch v := f.value.(type) {
	case string:
		s.String(f.name, v, f.usage)
	case variable:
		s.String(f.name, v(w.Getenv), f.usage)
	case bool:
		s.Bool(f.name, v, f.usage)
	case int:
		s.Int(f.name, v, f.usage)
	case time.Duration:
		s.Duration(f.name, v, f.usage)
	case float64:
		s.Float64(f.name, v, f.usage)
	case texts:
		s.StringArray(f.name, v, f.usage)
	case commaTexts:
		s.StringSlice(f.name, v, f.usage)
	default:
		panic(fmt.Sprintf("flag %s: there are no values of type %T", f.name, f.value))
	}
}

// given returns the members of the body and the parameters that the flags set which were given.
func (x row) given(c *cobra.Command) (body, parameters map[string]any, err error) {
	body, parameters = map[string]any{}, map[string]any{}
	bodiless := strings.HasPrefix(x.call, "GET ") || strings.HasPrefix(x.call, "DELETE ")
	for _, f := range x.flags {
		member := f.member
		if member == "" {
			member = strings.ReplaceAll(f.name, "-", "_")
		}
		given := c.Flag(f.name)
		if !given.Changed || member == "-" {
			continue
		}
		to := body
		if name, ok := strings.CutPrefix(member, "?"); ok || bodiless {
			to, member = parameters, name
		}
		switch f.value.(type) {
		case string, variable:
			to[member] = given.Value.String()
		case texts, commaTexts:
			to[member] = listOf(c, f.name)
		default: // numbers and truth values are JSON, unless they are infinite or no number
			text := given.Value.String()
			if !json.Valid([]byte(text)) {
				return nil, nil, cli.UsageErrorf("--%s: %s is not a number that can be sent", f.name, text)
			}
			to[member] = json.RawMessage(text)
		}
	}
	return body, parameters, nil
}

// withParameters adds parameters to a path. Empty texts are left out.
func withParameters(path string, members map[string]any) string {
	v := url.Values{}
	for name, value := range members {
		switch value := value.(type) {
		case string:
			if value != "" {
				v.Set(name, value)
			}
		case []string:
			v[name] = value
		case json.RawMessage:
			v.Set(name, string(value))
		}
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// textOf returns the value of a flag as text.
func textOf(c *cobra.Command, name string) string { return c.Flag(name).Value.String() }

// isOn reports whether a flag is set.
func isOn(c *cobra.Command, name string) bool { return textOf(c, name) == "true" }

// intOf returns the value of a flag that is a number, and durationOf that of a span of time.
func intOf(c *cobra.Command, name string) int { return must(c.Flags().GetInt(name)) }

func durationOf(c *cobra.Command, name string) time.Duration {
	return must(c.Flags().GetDuration(name))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // its option has another type
	}
	return v
}

// listOf returns the values of a flag that may be given several times.
func listOf(c *cobra.Command, name string) []string {
	list, ok := c.Flag(name).Value.(pflag.SliceValue)
	if !ok {
		return nil
	}
	return list.GetSlice()
}

// printWith returns a printer of the answer: unchanged with --json, else by print.
func printWith[T any](print func(a *remote, v T) error) printer {
	return func(ctx context.Context, a *remote, r sending) error {
		return showAs(ctx, a, r.method, r.path, r.body, func(v T) error { return print(a, v) })
	}
}

// showAs sends a request and prints its answer: unchanged with --json, else by print.
func showAs[T any](ctx context.Context, a *remote, method, path string, in any, print func(T) error) error {
	var raw json.RawMessage
	if err := a.do(ctx, method, path, in, &raw); err != nil {
		return err
	}
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, raw)
	}
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	return print(v)
}

// printMembers prints the members of the answer.
var printMembers = printWith(func(a *remote, raw json.RawMessage) error { return printFields(a.w.Stdout, raw, nil) })

// printDone returns a printer that says what was done to an object. With --json it prints the answer of the
// server instead, or an object with ref and done if the answer is empty.
func printDone(done string) printer {
	return func(ctx context.Context, a *remote, r sending) error {
		var raw json.RawMessage
		err := a.do(ctx, r.method, r.path, r.body, &raw)
		switch {
		case err != nil:
			return err
		case !a.asJSON || raw == nil:
			return a.sayDone(r.ref, done)
		}
		return cli.PrintJSON(a.w.Stdout, raw)
	}
}

// sayDone says what was done to an object, with --json as an object.
func (a *remote) sayDone(ref, done string) error {
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, map[string]string{"ref": ref, "done": done})
	}
	_, err := fmt.Fprintf(a.w.Stderr, "%s %s\n", ref, done)
	return err
}

// printList returns a printer of the pages of a list: as a table with a header and the cells of each member, in the
// order of their texts if sortBy is given, or with --json as they came.
func printList[T any](member, header string, cells func(v T) []any, sortBy ...func(v T) string) printer {
	return func(ctx context.Context, a *remote, r sending) error {
		if a.asJSON {
			return each(ctx, a, r.path, member, func(raw json.RawMessage) error { return cli.PrintJSON(a.w.Stdout, raw) })
		}
		var all []T
		err := each(ctx, a, r.path, member, func(v T) error {
			all = append(all, v)
			return nil
		})
		if err != nil {
			return err
		}
		for _, text := range sortBy {
			slices.SortStableFunc(all, func(x, y T) int { return strings.Compare(text(x), text(y)) })
		}
		t := newColumns(a.w, header)
		for _, v := range all {
			t.row(cells(v)...)
		}
		return t.Flush()
	}
}

// somethingGiven refuses a request without members.
func somethingGiven(refusal string) func(*remote, *cobra.Command, []string, map[string]any) error {
	return func(_ *remote, _ *cobra.Command, _ []string, body map[string]any) error {
		if len(body) == 0 {
			return cli.UsageErrorf("%s", refusal)
		}
		return nil
	}
}
