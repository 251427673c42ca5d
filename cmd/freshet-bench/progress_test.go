package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/schollz/progressbar/v3"
)

// TestProgressLines checks that long work shows its progress in a log: one line for each
// state of the bar, and none within the given time of the last.
func TestProgressLines(t *testing.T) {
	for every, most := range map[time.Duration]int{0: 20, time.Hour: 0} {
		var log bytes.Buffer
		bar := progressbar.NewOptions(20, progressbar.OptionSetWriter(&barLines{to: &log, every: every, last: time.Now()}),
			progressbar.OptionSetDescription("recording"), progressbar.OptionShowCount(), progressbar.OptionSetWidth(10),
			progressbar.OptionClearOnFinish())
		for range 19 {
			if err := bar.Add(1); err != nil {
				t.Fatal(err)
			}
		}
		lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
		if most == 0 {
			if log.Len() > 0 {
				t.Errorf("within %s: %q", every, log.String())
			}
			continue
		}
		if last := lines[len(lines)-1]; len(lines) > most || !strings.Contains(last, "recording") || !strings.Contains(last, "19/20") {
			t.Errorf("%d lines, the last is %q", len(lines), last)
		}
		if strings.ContainsAny(log.String(), "\r\x1b") {
			t.Errorf("control characters in %q", log.String())
		}
	}
}
