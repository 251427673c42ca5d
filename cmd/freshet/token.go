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
)

func newSecret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

func tokenCommand(w *cli.Env) *cobra.Command {
	a := &api{w: w}
	c := &cobra.Command{Use: "token", Short: "Manage tokens",
		Example: "  freshet token add --local ops --role admin     the first one: prints what goes into the file\n  freshet token add shop --role app"}
	a.flags(c)
	c.AddCommand(a.tokenAdd(), a.tokenList(), a.changeEach("rm NAME", "Revoke a token", http.MethodDelete, below("/v1/tokens", ""), "is revoked"))
	return c
}

func (a *api) tokenAdd() *cobra.Command {
	var role string
	var local bool
	c := &cobra.Command{Use: "add NAME", Short: "Create a token; its secret is shown once", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !registry.Role(role).Includes(registry.RoleRead) {
				return cli.UsageErrorf("--role: %q is none of admin, app, read", role)
			}
			if err := registry.CheckTokenName(args[0]); err != nil {
				return cli.UsageErrorf("%v", err)
			}
			if local {
				secret := newSecret()
				if a.asJSON {
					return cli.PrintJSON(a.w.Stdout, map[string]string{"name": args[0], "role": role, "sha256": config.HashSecret(secret), "token": secret})
				}
				fmt.Fprintf(a.w.Stderr, "Add to tokens: in the configuration file:\n  - {name: %s, role: %s, sha256: %s}\nThe secret follows; it is not kept anywhere.\n", args[0], role, config.HashSecret(secret))
				_, err := fmt.Fprintln(a.w.Stdout, secret)
				return err
			}
			var t struct {
				Token string `json:"token"`
			}
			if err := a.do(c.Context(), http.MethodPost, "/v1/tokens", map[string]string{"name": args[0], "role": role}, &t); err != nil {
				return err
			}
			if a.asJSON {
				return cli.PrintJSON(a.w.Stdout, map[string]string{"name": args[0], "role": role, "token": t.Token})
			}
			_, err := fmt.Fprintln(a.w.Stdout, t.Token)
			return err
		}}
	c.Flags().StringVar(&role, "role", "app", "admin, app or read")
	c.Flags().BoolVar(&local, "local", false, "contact no server: print the secret and the line for the configuration file")
	return c
}

func (a *api) tokenList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List tokens", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return printTable(c.Context(), a, "/v1/tokens", "tokens", "NAME\tROLE", func(v registry.Token) []any { return []any{v.Name, v.Role} })
		}}
}
