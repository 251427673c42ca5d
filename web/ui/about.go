package ui

import (
	"runtime"
)

// A configPage shows the effective configuration and the source of each value.
type configPage struct {
	Rows  []Setting
	About []pair
}

func (v serverHandler) settings() (content, error) {
	rows, err := v.Settings()
	return content{Data: configPage{Rows: rows, About: v.aboutServer()}}, err
}

// An aboutPage identifies the server and links to documentation.
type aboutPage struct {
	Version string
	Server  []pair
	Metrics bool
}

func (v serverHandler) about() (content, error) {
	p := aboutPage{Version: v.Version, Server: v.aboutServer(), Metrics: v.Metrics != nil}
	return content{Data: p}, nil
}

// aboutServer holds the figures that both pages show. Values that cannot be read at
// the moment are left out; the page is still shown.
func (v serverHandler) aboutServer() []pair {
	out := []pair{{"Version", v.Version}}
	if !v.Started.IsZero() {
		out = append(out, pair{"Up for", span(v.now.Sub(v.Started))})
	}
	if v.Storage != nil {
		if s, err := v.Storage(); err == nil {
			out = append(out, pair{"Store", amount(s.Size)}, pair{"of it free", amount(s.Free)})
		}
	}
	if head, err := v.History.Head(); err == nil {
		out = append(out, pair{"Changes since the beginning", count(head.Seq)})
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return append(out, pair{"Memory", amount(m.Sys - m.HeapReleased)}, pair{"Built with", runtime.Version()})
}
