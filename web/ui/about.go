package ui

import (
	"runtime"
	"time"

	"github.com/freshet/freshet/registry"
)

// A configPage shows the effective configuration and the source of each value.
type configPage struct {
	Rows   []Setting
	Server serverFigures
}

func (v serverHandler) settings() (content, error) {
	rows, err := v.Settings()
	return content{Data: configPage{Rows: rows, Server: v.figures()}}, err
}

// An aboutPage identifies the server and links to documentation.
type aboutPage struct {
	Server  serverFigures
	Metrics bool
}

func (v serverHandler) about() (content, error) {
	return content{Data: aboutPage{Server: v.figures(), Metrics: v.Metrics != nil}}, nil
}

// ServerFigures are the figures that both pages show. Pointers are nil for what cannot
// be read at the moment.
type serverFigures struct {
	Version string
	Up      time.Duration // 0 if it is unknown
	Store   *Storage
	Changes *registry.Offset // the number of changes since the beginning
	Memory  uint64
	Go      string
}

func (v serverHandler) figures() serverFigures {
	f := serverFigures{Version: v.Version, Go: runtime.Version()}
	if !v.Started.IsZero() {
		f.Up = v.now.Sub(v.Started)
	}
	if v.Storage != nil {
		if s, err := v.Storage(); err == nil {
			f.Store = &s
		}
	}
	if head, err := v.History.Head(); err == nil {
		f.Changes = &head
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.Memory = m.Sys - m.HeapReleased
	return f
}
