package main

// This file holds `freshet token`, which manages tokens.

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

func newSecret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

var tokenTable = row{use: "token", short: "Manage tokens", example: tokenExamples, rows: []row{
	{use: "add NAME", short: "Create a token; its secret is shown once", example: tokenExamples,
		call: "POST /v1/tokens", run: addToken, flags: []option{
			{name: "role", value: "app", usage: "admin, app or read"},
			{name: "local", value: false, usage: "contact no server: print the secret and the line for the configuration file"},
		}},
	{use: "list", short: "List tokens", example: "freshet token list", call: "GET /v1/tokens",
		out: printList("tokens", "NAME\tROLE", func(v api.Token) []any { return []any{v.Name, v.Role} })},
	{use: "rm NAME", short: "Revoke a token", example: "freshet token rm shop", call: "DELETE /v1/tokens/{}", out: printDone("is revoked")},
}}

const tokenExamples = "freshet token add --local ops --role admin     the first one: prints what goes into the file\nfreshet token add shop --role app"

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
		t["token"] = newSecret()
		t["sha256"] = config.HashSecret(t["token"])
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
