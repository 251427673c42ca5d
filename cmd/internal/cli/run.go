// Package cli holds the common parts of the programs below cmd: the process around
// them, exit codes, help, completion, version and errors.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// An Env is the process around a program. Tests pass their own.
type Env struct {
	Stdin    io.Reader
	Stdout   io.Writer // data
	Stderr   io.Writer // messages and progress
	Getenv   func(string) string
	Environ  func() []string // all variables as NAME=VALUE; nil: none
	Terminal bool            // stderr is a terminal: show progress
	Screen   bool            // stdout is a terminal: show tables, and no character that controls it
	Color    bool
	Exec     func(path string, args, env []string) error // replaces this process; nil in tests
}

// OSEnv returns the environment of this process.
func OSEnv() *Env {
	tty, screen := term.IsTerminal(int(os.Stderr.Fd())), term.IsTerminal(int(os.Stdout.Fd()))
	return &Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ, Terminal: tty, Screen: screen,
		Color: colorful(screen, os.Getenv), Exec: replace,
	}
}

// colorful reports whether to print in colour: on terminals with colours, unless
// NO_COLOR is set.
func colorful(terminal bool, getenv func(string) string) bool {
	return terminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// UsualServer is where a server of this machine serves.
const UsualServer = "http://127.0.0.1:8080"

// Exit codes, part of the public contract.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitAuth        = 4
	ExitUnreachable = 5
)

// An ExitError is an error with the exit code that fits it.
type ExitError struct {
	Code int
	err  error
}

func (e *ExitError) Error() string { return e.err.Error() }
func (e *ExitError) Unwrap() error { return e.err }

// WithCode gives err an exit code.
func WithCode(code int, err error) error { return &ExitError{code, err} }

// UsageErrorf returns an error of the command line or the configuration.
func UsageErrorf(format string, a ...any) error {
	return WithCode(ExitUsage, fmt.Errorf(format, a...))
}

// ExitCode returns the exit code of err.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return ExitUnreachable
	}
	return ExitFailure
}

// goesOn reports whether a command runs until it is interrupted.
func goesOn(c *cobra.Command) bool {
	given := func(flag string) string { return c.Flag(flag).Value.String() }
	switch c.CommandPath() {
	case "freshet serve", "freshet demo", "freshet sparql", "freshet watch", "freshet follow", "freshet profile watch",
		"freshet feed follow":
		return true
	case "freshet watch-entity", "freshet watch-class", "freshet watch-category":
		return given("follow") == "true"
	case "freshet hint":
		return given("changesets") != "" && given("once") != "true"
	}
	return false
}

// Run executes one command line and returns the exit code. An interrupt is the
// normal end of servers and followers, and a failure of every other command.
func Run(ctx context.Context, root *cobra.Command, args []string, w *Env) int {
	root.SetArgs(args)
	root.SetIn(w.Stdin)
	root.SetOut(w.Stdout)
	root.SetErr(w.Stderr)
	c, err := root.ExecuteContextC(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		if goesOn(c) {
			return ExitOK
		}
		err = errors.New("stopped before it was finished")
	}
	if err != nil {
		fmt.Fprintf(w.Stderr, "freshet: %s\n", printable(err.Error()))
		return ExitCode(err)
	}
	return ExitOK
}

// UntilHangup returns a context that also ends when the terminal goes away, so that the
// server ends in order and its directory is removed. From then on, a write to an output
// without a reader fails instead of ending the process, and the caller ends for that
// error. Notify is no way to learn of it: it also reports broken connections of clients.
func UntilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	if signal.Ignored(syscall.SIGHUP) { // as nohup does
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// printable replaces characters that control a terminal. The text of a message may
// come from a damaged file or a server.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// ListenError adds a remedy to an error of net.Listen.
func ListenError(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w\nanother server may be running there: stop it, or choose another address with --listen", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w\nthis user may not take the port: choose one above 1023 with --listen", err)
	}
	return fmt.Errorf("%w\nchoose an address of this machine with --listen, such as 127.0.0.1:8080", err)
}

// SecretFrom reads a secret from NAME, or from the file that NAME_FILE names.
func SecretFrom(getenv func(string) string, name string) (string, error) {
	if path := getenv(name + "_FILE"); path != "" {
		return SecretIn(path, name+"_FILE")
	}
	return getenv(name), nil
}

// SecretIn reads a secret from the file that a setting names. An empty file is an error: without a secret, a server
// would be open.
func SecretIn(path, setting string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", UsageErrorf("%s: %v", setting, err)
	}
	secret := strings.TrimSpace(string(b))
	if secret == "" {
		return "", UsageErrorf("%s: %s is empty", setting, path)
	}
	return secret, nil
}

// PrintJSON prints v on one line.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
