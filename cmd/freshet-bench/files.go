package main

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/cmd/internal/cli"
)

// loadTrace reads a trace. A missing file is a usage error.
func loadTrace(path string) (*trace.Trace, error) {
	if path == "" {
		return nil, cli.UsageErrorf("--trace is missing: which trace to read")
	}
	t, err := trace.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.UsageErrorf("the trace %s does not exist", path)
	}
	return t, err
}

func saveTrace(path string, t *trace.Trace) error {
	return writeFile(path, func(w io.Writer) error {
		if strings.HasSuffix(path, ".json") {
			return t.WriteJSON(w)
		}
		return t.Write(w)
	})
}

// writeFile writes a file atomically.
func writeFile(path string, write func(io.Writer) error) error {
	_, err := cli.WriteFile(path, 0o644, func(w io.Writer) (int64, error) {
		b := bufio.NewWriterSize(w, 1<<20)
		return 0, errors.Join(write(b), b.Flush())
	})
	return err
}
