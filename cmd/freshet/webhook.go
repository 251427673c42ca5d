package main

// This file holds `freshet webhook` and `freshet token`.

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
	"github.com/freshet/freshet/web/api"
)

var webhookTable = row{use: "webhook", short: "Send changes to a URL (Standard Webhooks)",
	example: "freshet webhook add --query prices https://shop.example.org/freshet\nfreshet webhook rotate wh_4kq… --grace " +
		"1h\nfreshet webhook replay wh_4kq…",
	rows: []row{
		{use: "add URL", short: "Register a webhook; its secret is shown once",
			example: "freshet webhook add https://app.example.org/hook --query types",
			long: `Registers a webhook and prints its id. The secret that signs its messages is printed
once, to standard error (with --json both are in the object). The URL receives
messages of type webhook.verify until it answers 2xx.`,
			call: "POST /v1/webhooks", arg: "url", body: webhookFilter, out: printWith(printWebhook), flags: []option{
				{name: "name", value: "", usage: "your name for it"},
				{name: "query", value: "", usage: "id or name of the query (default: all queries)"},
				{name: "tag", value: "", usage: "of all queries, those with this tag"},
				{name: "endpoint", value: "", usage: "of all queries, those on this endpoint"},
				{name: "filter", value: "", usage: `what to send, as JSON, e.g. '{"min_rows":5}'`, member: "-"},
				{name: "rate", value: "", usage: "minimum time between two messages, e.g. 1m"},
				{name: "secret", value: "", usage: "the secret, whsec_… (default: generated); visible to others on this machine"},
			}},
		{use: "list", short: "List webhooks", example: "freshet webhook list", call: "GET /v1/webhooks", out: subscriptionsIn("webhooks")},
		{use: "rotate ID", short: "Create a new secret and print it", example: "freshet webhook rotate wh_4kq… --grace 1h",
			call: "POST /v1/webhooks/{}/rotate", out: printWith(printSecret), flags: []option{
				{name: "grace", value: "24h", usage: "how long the old secret also signs"},
				{name: "secret", value: "", usage: "the secret, whsec_… (default: generated)"},
			}},
		{use: "replay ID", short: "Send dead letters, or the changes after a position, again", example: "freshet webhook replay wh_4kq…",
			call: "POST /v1/webhooks/{}/replay", out: printWith(printReplayed), one: []string{"message after"}, flags: []option{
				{name: "message", value: "", usage: "only this dead letter (msg_…)", member: "id"},
				{name: "after", value: "", usage: "everything that changed after this position (epoch:number)"},
			}},
		{use: "rm ID...", short: "End a webhook", example: "freshet webhook rm wh_4kq…", call: "DELETE /v1/webhooks/{}",
			out: printDone("is removed")},
	}}

// webhookFilter adds the filter to a new webhook.
func webhookFilter(_ *remote, c *cobra.Command, _ []string, body map[string]any) error {
	filter := textOf(c, "filter")
	if filter != "" && !json.Valid([]byte(filter)) {
		return cli.UsageErrorf("--filter: %q is not JSON", filter)
	} else if filter != "" {
		body["filter"] = json.RawMessage(filter)
	}
	return nil
}

func printWebhook(a *remote, v api.Webhook) error {
	fmt.Fprintf(a.w.Stderr, "The secret is shown only now: %s\n", v.Secret)
	_, err := fmt.Fprintln(a.w.Stdout, v.ID)
	return err
}

func printReplayed(a *remote, _ api.Webhook) error {
	_, err := fmt.Fprintln(a.w.Stderr, "the messages are sent next")
	return err
}

func printSecret(a *remote, v api.Webhook) error {
	_, err := fmt.Fprintln(a.w.Stdout, v.Secret)
	return err
}

var tokenTable = row{use: "token", short: "Manage tokens", example: tokenExamples, rows: []row{
	{use: "add NAME", short: "Create a token; its secret is shown once", example: tokenExamples,
		call: "POST /v1/tokens", run: addToken, flags: []option{
			{name: "role", value: "app", usage: "admin, app or read"},
			{name: "local", value: false, usage: "contact no server: print the secret and the line for the configuration file"},
		}},
	{use: "list", short: "List tokens", example: "freshet token list", call: "GET /v1/tokens",
		out: printList("tokens", "NAME\tROLE", func(v api.Token) []any {
			if v.Hidden {
				return []any{v.Name, v.Role + ", hidden by the configuration file"}
			}
			return []any{v.Name, v.Role}
		})},
	{use: "rm NAME", short: "Revoke a token", example: "freshet token rm shop", call: "DELETE /v1/tokens/{}", out: printDone("is revoked")},
}}

const tokenExamples = "freshet token add --local ops --role admin     the first one: prints what goes into the " +
	"file\nfreshet token add shop --role app"

func addToken(a *remote, c *cobra.Command, args []string) error {
	name, role := args[0], textOf(c, "role")
	if !registry.Role(role).Includes(registry.RoleRead) {
		return cli.UsageErrorf("--role: %q is none of admin, app, read", role)
	}
	if err := registry.CheckTokenName(name); err != nil {
		return cli.UsageErrorf("%v", err)
	}
	t := map[string]string{"name": name, "role": role}
	if isOn(c, "local") {
		t["token"], t["sha256"] = web.NewSecret()
		if !a.asJSON {
			fmt.Fprintf(a.w.Stderr, "Add to tokens: in the configuration file:\n  - {name: %s, role: %s, sha256: %s}\n"+
				"The secret follows; it is not kept anywhere.\n", name, role, t["sha256"])
		}
	} else {
		var made api.Token
		if err := a.do(c.Context(), http.MethodPost, "/v1/tokens", t, &made); err != nil {
			return err
		}
		t["token"] = made.Token
	}
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, t)
	}
	_, err := fmt.Fprintln(a.w.Stdout, t["token"])
	return err
}
