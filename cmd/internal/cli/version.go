package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// newest is the newest version in CHANGELOG.md. Builds of a source without a tag
// are named after it and their revision, such as v0.1.0+6255db7a0b1c.
const newest = "v0.1.0"

// Release is the version that the linker set; "" means that it set none.
var Release string

// A build describes the program that runs.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source, where Go recorded it
	Time     string `json:"time,omitempty"`     // of the revision
	Modified bool   `json:"modified,omitempty"` // the source had changes that no revision holds
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildOf returns the build that Go recorded. The version is release if set, else the
// one that Go recorded from a tag or from "go install MODULE@VERSION", else newest with
// the revision.
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
		b.Version = newest
	default:
		b.Version = newest + "+" + short
		if b.Modified {
			b.Version += ".dirty"
		}
	}
	return b
}

// ThisBuild returns the build of this program.
var ThisBuild = sync.OnceValue(func() build {
	info, _ := debug.ReadBuildInfo() // nil without one
	return buildOf(Release, info)
})

// Version returns the version of this program, such as v0.1.0 or, for a source without
// a tag, v0.1.0+6255db7a0b1c.
func Version() string { return ThisBuild().Version }

// String describes the build in one line.
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
