package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// Release is the version that the linker gave the program, "" without.
var Release string

// A build says which program this is.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source, where Go recorded it
	Time     string `json:"time,omitempty"`     // of the revision
	Modified bool   `json:"modified,omitempty"` // the source had changes that no revision holds
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildOf reads what Go recorded when it built the program. release wins over
// the recorded version, which is that of a tag or of "go install MODULE@VERSION".
// Without either the revision names a development version.
func buildOf(release string, info *debug.BuildInfo) build {
	b := build{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		info = &debug.BuildInfo{}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	short := b.Revision[:min(12, len(b.Revision))]
	tagged := info.Main.Version != "" && info.Main.Version != "(devel)" && (short == "" || !strings.Contains(info.Main.Version, short))
	switch {
	case b.Version != "":
	case tagged:
		b.Version = info.Main.Version
	case short == "":
		b.Version = "devel"
	default:
		b.Version = "devel-" + short
		if b.Modified {
			b.Version += "+dirty"
		}
	}
	return b
}

var ThisBuild = sync.OnceValue(func() build {
	info, _ := debug.ReadBuildInfo() // nil without one
	return buildOf(Release, info)
})

// Version is the release, else what names the source that was built.
func Version() string { return ThisBuild().Version }

// String is one line for people.
func (b build) String() string {
	words := []string{b.Go, b.Platform}
	if b.Revision != "" {
		revision := "revision " + b.Revision
		if b.Time != "" {
			revision += " of " + b.Time
		}
		if b.Modified {
			revision += " with uncommitted changes"
		}
		words = append([]string{revision}, words...)
	}
	return fmt.Sprintf("freshet %s (%s)", b.Version, strings.Join(words, ", "))
}
