package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// progress shows a bar on a terminal, and elsewhere a line each minute.
func progress(w *cli.Env, steps int, what string) *progressbar.ProgressBar {
	options := []progressbar.Option{progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish()}
	if w.Terminal {
		options = append(options, progressbar.OptionSetWriter(w.Stderr), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionFullWidth())
	} else {
		lines := &barLines{to: w.Stderr, every: time.Minute, last: time.Now()}
		options = append(options, progressbar.OptionSetWriter(lines), progressbar.OptionThrottle(time.Second), progressbar.OptionSetWidth(10))
	}
	return progressbar.NewOptions(steps, options...)
}

// barLines writes some of the states of a bar as lines.
type barLines struct {
	to    io.Writer
	every time.Duration // at most one line in this time
	last  time.Time     // when the last line was written
}

func (b *barLines) Write(p []byte) (int, error) {
	if line := strings.TrimSpace(string(p)); line != "" && time.Since(b.last) >= b.every {
		b.last = time.Now()
		fmt.Fprintln(b.to, line)
	}
	return len(p), nil
}
