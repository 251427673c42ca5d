package ui

// This file shows the settings of the server, and the documentation.

import (
	"errors"
	"io/fs"
	"net/http"
	"path"
	"runtime"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
	"github.com/freshet/freshet/web/docs"
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

// about identifies the server and links to documentation.
func (v serverHandler) about() (content, error) { return content{Data: v.figures()}, nil }

// ServerFigures are the figures that both pages show. Pointers are nil for what cannot
// be read at the moment.
type serverFigures struct {
	Version string
	Up      time.Duration
	Store   *struct{ Size, Free int64 }
	Changes *registry.Offset // the number of changes since the beginning
	Memory  uint64
	Go      string
}

func (v serverHandler) figures() serverFigures {
	f := serverFigures{Version: v.Version, Go: runtime.Version(), Up: v.now.Sub(v.Started)}
	if size, free, err := v.Storage(); err == nil {
		f.Store = &struct{ Size, Free int64 }{size, free}
	}
	if head, err := v.History.Head(); err == nil {
		f.Changes = &head
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.Memory = m.Sys - m.HeapReleased
	return f
}

// A docsPage is a page of the documentation, or the index with what a search found.
type docsPage struct {
	*docs.Page
	Groups []docs.Group
	Index  bool
	Query  string
	Hits   []docs.Hit
}

func (v docsHandler) page() (content, error) {
	site, err := docs.Open()
	if err != nil {
		return content{}, err
	}
	p := docsPage{Page: site.Page(v.r.PathValue("page")), Groups: site.Groups}
	if p.Page == nil || p.Page == site.Index {
		return content{}, &registry.Problem{Kind: registry.KindNotFound, Title: "There is no such page",
			Detail: "The documentation has no page of this name. /docs lists its pages."}
	}
	return content{Data: p}, nil
}

// A problemPage explains a kind of problem.
type problemPage struct {
	Kind          registry.Kind
	Status        int
	About, Remedy string
}

func (v docsHandler) problem() (content, error) {
	p := problemPage{Kind: registry.Kind(v.r.PathValue("slug"))}
	var ok bool
	if p.About, p.Remedy, ok = web.Explain(p.Kind); !ok {
		return content{}, &registry.Problem{Kind: registry.KindNotFound, Title: "There is no problem of this type"}
	}
	p.Status = web.Status(p.Kind)
	return content{Data: p}, nil
}

func (v docsHandler) index() (content, error) {
	site, err := docs.Open()
	if err != nil {
		return content{}, err
	}
	const longest = 200
	q := clip(v.r.URL.Query().Get("q"), longest)
	return content{Data: docsPage{Page: site.Index, Groups: site.Groups, Index: true, Query: q, Hits: site.Search(q)}}, nil
}

// file sends a page as Markdown, or a picture. A picture has a style of its own.
func (v docsHandler) file() error {
	name := v.r.PathValue("name")
	b, err := docs.File(name)
	if errors.Is(err, fs.ErrNotExist) {
		return &registry.Problem{Kind: registry.KindNotFound, Detail: "The documentation has no file of this name."}
	}
	if err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/markdown; charset=utf-8")
	if typ := types[path.Ext(name)]; typ != "" {
		h.Set("Content-Type", typ)
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	}
	h.Set("Cache-Control", "no-cache")
	writeAll(v.w, v.r, http.StatusOK, b)
	return nil
}
