package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
)

func webhookCommand(w *cli.Env) *cobra.Command {
	a := &api{w: w}
	c := &cobra.Command{Use: "webhook", Short: "Have changes sent to a URL, after Standard Webhooks",
		Example: "  freshet webhook add --query prices https://shop.example.org/freshet\n  freshet webhook rotate wh_4kq… --grace 1h\n  freshet webhook replay wh_4kq…"}
	a.flags(c)
	c.AddCommand(a.webhookAdd(), a.webhookList(), a.webhookRotate(), a.webhookReplay(), &cobra.Command{
		Use: "rm ID...", Short: "End a webhook", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			for _, id := range args {
				if err := a.do(c.Context(), http.MethodDelete, "/v1/webhooks/"+url.PathEscape(id), nil, nil); err != nil {
					return err
				}
				fmt.Fprintf(w.Stderr, "%s is removed\n", id)
			}
			return nil
		}})
	return c
}

// A hookView holds the id and the new secret of a webhook.
type hookView struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

func (a *api) webhookAdd() *cobra.Command {
	var name, query, tag, endpoint, filter, rate, secret string
	c := &cobra.Command{Use: "add URL", Short: "Register a webhook; its secret is shown once", Args: cobra.ExactArgs(1),
		Long: `Registers a webhook and prints its id; the secret that its messages are signed
with goes to standard error, once (with --json both are in the object). The URL
is asked with a message of type webhook.verify until it answers 2xx.`,
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{"url": args[0]}
			for k, v := range map[string]string{"name": name, "query": query, "tag": tag, "endpoint": endpoint, "rate": rate, "secret": secret} {
				if v != "" {
					body[k] = v
				}
			}
			if filter != "" {
				if !json.Valid([]byte(filter)) {
					return cli.UsageErrorf("--filter: %q is not JSON", filter)
				}
				body["filter"] = json.RawMessage(filter)
			}
			return a.printSecret(c, "/v1/webhooks", body, true)
		}}
	f := c.Flags()
	f.StringVar(&name, "name", "", "your name for it")
	f.StringVar(&query, "query", "", "id or name of the query (default: all queries)")
	f.StringVar(&tag, "tag", "", "of all queries, those with this tag")
	f.StringVar(&endpoint, "endpoint", "", "of all queries, those on this endpoint")
	f.StringVar(&filter, "filter", "", `what to send, as JSON, e.g. '{"min_rows":5}'`)
	f.StringVar(&rate, "rate", "", "least time between two messages, e.g. 1m")
	f.StringVar(&secret, "secret", "", "the secret, whsec_… (default: made up); visible to others on this machine")
	return c
}

// printSecret posts body and prints the secret in the answer, and the id if asked.
func (a *api) printSecret(c *cobra.Command, path string, body any, id bool) error {
	var raw json.RawMessage
	if err := a.do(c.Context(), http.MethodPost, path, body, &raw); err != nil {
		return err
	}
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, raw)
	}
	var v hookView
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	if !id {
		_, err := fmt.Fprintln(a.w.Stdout, v.Secret)
		return err
	}
	fmt.Fprintf(a.w.Stderr, "The secret is shown this once: %s\n", v.Secret)
	_, err := fmt.Fprintln(a.w.Stdout, v.ID)
	return err
}

func (a *api) webhookList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List webhooks", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.listSubscriptions(c.Context(), "/v1/webhooks", "webhooks")
		}}
}

func (a *api) webhookRotate() *cobra.Command {
	var grace, secret string
	c := &cobra.Command{Use: "rotate ID", Short: "Make a new secret and print it", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]string{"grace": grace}
			if secret != "" {
				body["secret"] = secret
			}
			return a.printSecret(c, "/v1/webhooks/"+url.PathEscape(args[0])+"/rotate", body, false)
		}}
	c.Flags().StringVar(&grace, "grace", "24h", "how long the old secret signs, too")
	c.Flags().StringVar(&secret, "secret", "", "the secret, whsec_… (default: made up)")
	return c
}

func (a *api) webhookReplay() *cobra.Command {
	var letter, after string
	c := &cobra.Command{Use: "replay ID", Short: "Send dead letters, or all after a position, again", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]string{}
			if letter != "" {
				body["id"] = letter
			}
			if after != "" {
				body["after"] = after
			}
			if err := a.do(c.Context(), http.MethodPost, "/v1/webhooks/"+url.PathEscape(args[0])+"/replay", body, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.w.Stderr, "they are sent next")
			return nil
		}}
	c.Flags().StringVar(&letter, "message", "", "only this dead letter (msg_…)")
	c.Flags().StringVar(&after, "after", "", "everything that changed after this position (epoch:number)")
	c.MarkFlagsMutuallyExclusive("message", "after")
	return c
}
