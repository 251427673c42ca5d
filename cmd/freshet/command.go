package main

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// showAs sends a request and prints its answer: unchanged with --json, else by print.
func showAs[T any](ctx context.Context, a *api, method, path string, in any, print func(T) error) error {
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

// changeEach returns a command that sends one request for each object that its
// arguments name. use ends in "..." if there may be several.
func (a *api) changeEach(use, short, method string, path func(ref string) string, done string) *cobra.Command {
	count := cobra.ExactArgs(1)
	if strings.HasSuffix(use, "...") {
		count = cobra.MinimumNArgs(1)
	}
	return &cobra.Command{Use: use, Short: short, Args: count,
		RunE: func(c *cobra.Command, args []string) error {
			for _, ref := range args {
				if err := a.change(c.Context(), method, path(ref), nil, ref, done); err != nil {
					return err
				}
			}
			return nil
		}}
}

// below returns the path of an object in a collection, followed by suffix.
func below(collection, suffix string) func(ref string) string {
	return func(ref string) string { return collection + "/" + url.PathEscape(ref) + suffix }
}

// given returns the values of a command's own flags that were given, by the member of
// the request that they set: the name of the flag with underscores, or else the one in
// members, "" for none.
func given(c *cobra.Command, members map[string]string) map[string]any {
	body := map[string]any{}
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		member, ok := members[f.Name]
		if !ok {
			member = strings.ReplaceAll(f.Name, "-", "_")
		}
		if !f.Changed || member == "" {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			body[member] = list.GetSlice()
			return
		}
		switch f.Value.Type() {
		case "string":
			body[member] = f.Value.String()
		default: // numbers and truth values are JSON
			body[member] = json.RawMessage(f.Value.String())
		}
	})
	return body
}

// withGiven adds the flags of a command that were given to a path, as parameters.
// Empty texts are left out.
func withGiven(path string, c *cobra.Command, members map[string]string) string {
	v := url.Values{}
	for name, value := range given(c, members) {
		if text, ok := value.(string); ok && text != "" {
			v.Set(name, text)
		}
	}
	return path + "?" + v.Encode()
}
