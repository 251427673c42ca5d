package main

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
		"help":                  "freshet help query add",
		"store":                 "freshet store check --data freshet-data\nfreshet store compact copy.db",
		"store check":           "freshet store check --data freshet-data",
		"store compact":         "freshet store compact copy.db --data freshet-data",
		"store import":          "freshet store import --data new registrations.jsonl",
		"version":               "freshet version --json",
	}
}
