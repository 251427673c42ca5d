package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are those of commands so short that they have none of their own, by
// their path below freshet.
func examples() map[string]string {
	return map[string]string{
		"config":                "freshet config check --config freshet.yaml\nfreshet config print",
		"completion":            "source <(freshet completion bash)",
		"completion bash":       "freshet completion bash > /etc/bash_completion.d/freshet",
		"completion fish":       "freshet completion fish > ~/.config/fish/completions/freshet.fish",
		"completion powershell": "freshet completion powershell | Out-String | Invoke-Expression",
		"completion zsh":        "freshet completion zsh > \"${fpath[1]}/_freshet\"",
		"endpoint add":          "freshet endpoint add coins http://127.0.0.1:3030/sparql --set budget=5s --set slot='@every 10s'",
		"endpoint list":         "freshet endpoint list",
		"endpoint pause":        "freshet endpoint pause coins",
		"endpoint resume":       "freshet endpoint resume coins",
		"endpoint rm":           "freshet endpoint rm coins",
		"endpoint show":         "freshet endpoint show coins --json",
		"endpoint slots":        "freshet endpoint slots coins --limit 5",
		"endpoint tick":         "freshet endpoint tick coins",
		"help":                  "freshet help query add",
		"profile list":          "freshet profile list --endpoint coins",
		"profile rm":            "freshet profile rm oil",
		"profile show":          "freshet profile show oil",
		"profile watch":         "freshet profile watch oil --json",
		"query list":            "freshet query list --tag demo --state stale",
		"query pause":           "freshet query pause types",
		"query refresh":         "freshet query refresh types",
		"query resume":          "freshet query resume types",
		"query rm":              "freshet query rm types",
		"query validate":        "freshet query validate --endpoint coins --run types.rq",
		"store":                 "freshet store check --data freshet-data\nfreshet store compact copy.db",
		"store check":           "freshet store check --data freshet-data",
		"store compact":         "freshet store compact copy.db --data freshet-data",
		"store import":          "freshet store import --data new registrations.jsonl",
		"subscription drop":     "freshet subscription drop wh_4kq…",
		"subscription list":     "freshet subscription list --way webhook --state disabled",
		"subscription pause":    "freshet subscription pause live_2xr…",
		"subscription resume":   "freshet subscription resume live_2xr…",
		"subscription show":     "freshet subscription show wh_4kq…",
		"token add":             "freshet token add --local ops --role admin     the first one: prints what goes into the file\nfreshet token add shop --role app",
		"token list":            "freshet token list",
		"token rm":              "freshet token rm shop",
		"version":               "freshet version --json",
		"webhook add":           "freshet webhook add https://app.example.org/hook --query types",
		"webhook list":          "freshet webhook list",
		"webhook replay":        "freshet webhook replay wh_4kq…",
		"webhook rm":            "freshet webhook rm wh_4kq…",
		"webhook rotate":        "freshet webhook rotate wh_4kq… --grace 1h",
	}
}

// exemplify gives each command below c without an example the one of the table.
func exemplify(c *cobra.Command, table map[string]string) {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	if text, ok := table[path]; ok && c.Example == "" {
		c.Example = "  " + strings.ReplaceAll(text, "\n", "\n  ")
	}
	for _, sub := range c.Commands() {
		exemplify(sub, table)
	}
}
