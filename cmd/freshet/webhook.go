package main

// This file holds `freshet webhook`, which manages callbacks.

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
)

func webhookCommand(w *cli.Env) *cobra.Command {
	a := &api{w: w}
	c := &cobra.Command{Use: "webhook", Short: "Send changes to a URL (Standard Webhooks)",
		Example: "  freshet webhook add --query prices https://shop.example.org/freshet\n  freshet webhook rotate wh_4kq… --grace 1h\n  freshet webhook replay wh_4kq…"}
	a.flags(c)
	c.AddCommand(a.webhookAdd(), a.webhookList(), a.webhookRotate(), a.webhookReplay(),
		a.changeEach("rm ID...", "End a webhook", http.MethodDelete, below("/v1/webhooks", ""), "is removed"))
	return c
}

// A hookView holds the id and the new secret of a webhook.
type hookView struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

func (a *api) webhookAdd() *cobra.Command {
	var filter string
	c := &cobra.Command{Use: "add URL", Short: "Register a webhook; its secret is shown once", Args: cobra.ExactArgs(1),
		Long: `Registers a webhook and prints its id. The secret that signs its messages is printed
once, to standard error (with --json both are in the object). The URL receives
messages of type webhook.verify until it answers 2xx.`,
		RunE: func(c *cobra.Command, args []string) error {
			body := given(c, map[string]string{"filter": ""})
			body["url"] = args[0]
			if filter != "" {
				if !json.Valid([]byte(filter)) {
					return cli.UsageErrorf("--filter: %q is not JSON", filter)
				}
				body["filter"] = json.RawMessage(filter)
			}
			return a.printSecret(c, "/v1/webhooks", body, true)
		}}
	f := c.Flags()
	f.String("name", "", "your name for it")
	f.String("query", "", "id or name of the query (default: all queries)")
	f.String("tag", "", "of all queries, those with this tag")
	f.String("endpoint", "", "of all queries, those on this endpoint")
	f.StringVar(&filter, "filter", "", `what to send, as JSON, e.g. '{"min_rows":5}'`)
	f.String("rate", "", "minimum time between two messages, e.g. 1m")
	f.String("secret", "", "the secret, whsec_… (default: generated); visible to others on this machine")
	return c
}

// printSecret posts body and prints the secret in the answer, and the id if asked.
func (a *api) printSecret(c *cobra.Command, path string, body any, id bool) error {
	return showAs(c.Context(), a, http.MethodPost, path, body, func(v hookView) error {
		if !id {
			_, err := fmt.Fprintln(a.w.Stdout, v.Secret)
			return err
		}
		fmt.Fprintf(a.w.Stderr, "The secret is shown only now: %s\n", v.Secret)
		_, err := fmt.Fprintln(a.w.Stdout, v.ID)
		return err
	})
}

func (a *api) webhookList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List webhooks", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.listSubscriptions(c.Context(), "/v1/webhooks", "webhooks")
		}}
}

func (a *api) webhookRotate() *cobra.Command {
	c := &cobra.Command{Use: "rotate ID", Short: "Create a new secret and print it", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.printSecret(c, below("/v1/webhooks", "/rotate")(args[0]), given(c, nil), false)
		}}
	c.Flags().String("grace", "24h", "how long the old secret also signs")
	c.Flags().String("secret", "", "the secret, whsec_… (default: generated)")
	return c
}

func (a *api) webhookReplay() *cobra.Command {
	c := &cobra.Command{Use: "replay ID", Short: "Send dead letters, or the changes after a position, again", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			body := given(c, map[string]string{"message": "id"})
			if err := a.do(c.Context(), http.MethodPost, below("/v1/webhooks", "/replay")(args[0]), body, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.w.Stderr, "the messages are sent next")
			return nil
		}}
	c.Flags().String("message", "", "only this dead letter (msg_…)")
	c.Flags().String("after", "", "everything that changed after this position (epoch:number)")
	c.MarkFlagsMutuallyExclusive("message", "after")
	return c
}
