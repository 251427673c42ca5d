package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// A world is what the program sees of the process around it. Tests hand in
// their own.
type world struct {
	stdin  io.Reader
	stdout io.Writer // data
	stderr io.Writer // messages and progress
	getenv func(string) string
	tty    bool // stderr is a terminal: show progress
	color  bool
}

func osWorld() *world {
	tty := term.IsTerminal(int(os.Stderr.Fd()))
	return &world{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, tty: tty,
		color: colorful(term.IsTerminal(int(os.Stdout.Fd())), os.Getenv),
	}
}

// colorful says whether to print in colour: to terminals that have some, unless
// NO_COLOR is set.
func colorful(terminal bool, getenv func(string) string) bool {
	return terminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// Exit codes, part of the public contract.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitAuth        = 4
	exitUnreachable = 5
)

// An exitError carries the exit code that fits an error.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usage(format string, a ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, a...)}
}

// exitCode finds the code that fits err.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return exitUnreachable
	}
	return exitFailure
}

// goesOn says whether a command goes on until it is told to stop.
func goesOn(c *cobra.Command) bool {
	switch c.CommandPath() {
	case "freshet serve", "freshet demo", "freshet sparql", "freshet watch", "freshet profile watch":
		return true
	case "freshet hint":
		return c.Flags().Changed("changesets")
	}
	return false
}

// run executes one command line and returns the exit code. Being told to stop is
// how servers and followers end; what another command was to do is not done.
func run(ctx context.Context, args []string, w *world) int {
	root := newRoot(w)
	root.SetArgs(args)
	root.SetIn(w.stdin)
	root.SetOut(w.stdout)
	root.SetErr(w.stderr)
	c, err := root.ExecuteContextC(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		if goesOn(c) {
			return exitOK
		}
		err = errors.New("stopped before it was finished")
	}
	if err != nil {
		fmt.Fprintf(w.stderr, "freshet: %s\n", printed(err.Error()))
		return exitCode(err)
	}
	return exitOK
}

// printed is a message for a terminal: what of it came from a damaged file or from
// elsewhere can control nothing.
func printed(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// ago is how long ago t was, in one unit, for lists.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "–"
	}
	d := now.Sub(t)
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return t.UTC().Format("2 Jan, 15:04")
}
