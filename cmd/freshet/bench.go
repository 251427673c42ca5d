package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// benchTool is the program behind "freshet bench". It is a program of its own
// because it carries what a server does not need, such as plotting.
const benchTool = "freshet-bench"

func benchCommand(w *cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use: "bench", Short: "Compare refresh policies over recorded or generated histories",
		Example:            "  freshet bench --help",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := findBenchTool()
			if err != nil {
				return err
			}
			if w.Exec == nil {
				return fmt.Errorf("this system cannot replace a process: run %s yourself", path)
			}
			return w.Exec(path, append([]string{benchTool}, args...), os.Environ())
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			path, err := findBenchTool()
			if err != nil {
				return cobra.AppendActiveHelp(nil, err.Error()), cobra.ShellCompDirectiveNoFileComp
			}
			args = append(append([]string{cobra.ShellCompRequestCmd}, args...), toComplete)
			out, err := exec.Command(path, args...).Output()
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return completions(out)
		},
	}
	c.Flags().BoolP("help", "h", false, "") // the tool completes its own
	c.Flags().Lookup("help").Hidden = true
	return c
}

// findBenchTool looks beside this program, then in PATH.
func findBenchTool() (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), benchTool)); err == nil {
			return path, nil
		}
	}
	if path, err := exec.LookPath(benchTool); err == nil {
		return path, nil
	}
	return "", errors.New(benchTool + " is neither beside this program nor in PATH\n" +
		"'make build' in a source tree builds both programs into bin; 'go install github.com/freshet/freshet/cmd/" + benchTool +
		"@latest' installs it")
}

// completions reads what a program prints for a request for completions: one a
// line, and the directive after a colon on the last line.
func completions(out []byte) ([]string, cobra.ShellCompDirective) {
	lines := strings.Split(string(bytes.TrimSpace(out)), "\n")
	last := len(lines) - 1
	directive, err := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:last], cobra.ShellCompDirective(directive)
}
