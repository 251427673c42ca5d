package main

// This file prints results: as tables on a terminal, and exactly elsewhere.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/diff"
)

// printResult prints the result at a path. In a format that the user names it is exact. Otherwise a terminal gets a
// table unless JSON is wanted, and JSON ends with a line break. It says which time a past result is of.
func (a *remote) printResult(ctx context.Context, path, format string) error {
	resp, err := a.send(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if then, err := http.ParseTime(resp.Header.Get("Memento-Datetime")); err == nil {
		fmt.Fprintf(a.w.Stderr, "the result of %s\n", then.UTC().Format(time.RFC3339))
	}
	isJSON := format == "" && strings.Contains(resp.Header.Get("Content-Type"), "json")
	if a.w.Screen && !a.asJSON && isJSON {
		return printResultTable(a.w, resp.Body)
	}
	if err := printRaw(a.w, resp.Body); err != nil || !isJSON {
		return err
	}
	_, err = io.WriteString(a.w.Stdout, "\n")
	return err
}

// printResultTable prints the rows of a result in SPARQL's JSON.
func printResultTable(w *cli.Env, in io.Reader) error {
	var r struct {
		Head    struct{ Vars []string }
		Boolean *bool
		Results struct{ Bindings []json.RawMessage }
	}
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("the result cannot be read: %w", err)
	}
	if r.Boolean != nil {
		_, err := fmt.Fprintln(w.Stdout, *r.Boolean)
		return err
	}
	t := newColumns(w, strings.Join(r.Head.Vars, "\t"))
	for _, row := range r.Results.Bindings {
		cells := make([]string, len(r.Head.Vars))
		for i, term := range diff.RowTerms(diff.Select, r.Head.Vars, row) {
			if cells[i] = boundedText(term.Value); term.Kind == diff.Blank {
				cells[i] = "_:" + cells[i]
			}
			if term.Lang != "" {
				cells[i] += "@" + term.Lang
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w.Stderr, quantity(len(r.Results.Bindings), "row"))
	return nil
}

// printRaw copies an answer to the output. On a terminal it replaces the characters that
// control it; line breaks and tabs stay.
func printRaw(w *cli.Env, in io.Reader) error {
	if !w.Screen {
		_, err := io.Copy(w.Stdout, in)
		return err
	}
	from, to := bufio.NewReader(in), bufio.NewWriter(w.Stdout)
	for {
		r, _, err := from.ReadRune()
		if errors.Is(err, io.EOF) {
			return to.Flush()
		}
		if err != nil {
			return errors.Join(to.Flush(), err)
		}
		next, _ := from.Peek(1)
		switch lineEnd := r == '\r' && len(next) == 1 && next[0] == '\n'; {
		case r == '\n', r == '\t', lineEnd:
			_, _ = to.WriteRune(r) // Flush returns its error
		default:
			_, _ = to.WriteString(escapeControls(string(r)))
		}
	}
}
