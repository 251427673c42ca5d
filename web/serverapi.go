package web

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// backup streams a consistent copy of the live store. Only one runs at a time.
func (c serverAPI) backup() error {
	leave, err := enter(c.backups, c.name())
	if err != nil {
		return err
	}
	defer leave()
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="freshet-backup.db"`)
	h.Set("Cache-Control", "no-store")
	if c.r.Method == http.MethodHead {
		return nil
	}
	if _, err := c.Backup(patient(c.w)); err != nil {
		return fmt.Errorf("backup: %w", err) // closes the connection if part of the body has been sent
	}
	return nil
}

// description serves a description of the API.
func description(b []byte) func(*call) error {
	return func(c *call) error {
		c.w.Header().Set("Cache-Control", "no-cache")
		return c.bytes(http.StatusOK, "application/yaml", b)
	}
}

// asset serves a file that pages of any origin may load. It holds no data.
func asset(mediaType string, b []byte) func(*call) error {
	return func(c *call) error {
		h := c.w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		h.Set("Cache-Control", "no-cache")
		return c.bytes(http.StatusOK, mediaType, b)
	}
}

func (c serverAPI) explainProblem() error {
	slug := registry.Kind(c.r.PathValue("slug"))
	k, ok := problemKinds[slug]
	c.w.Header().Add("Vary", "Accept")
	switch {
	case c.Pages != nil && strings.Contains(c.r.Header.Get("Accept"), "text/html"):
		c.Pages.ServeHTTP(c.w, c.r)
		return nil
	case !ok:
		return notFound("there is no problem of this type")
	}
	return c.text(http.StatusOK, fmt.Sprintf("%s: %s\n\nHTTP status %d %s\n\n%s\n\n%s\n", slug, slug.Title(), k.status,
		http.StatusText(k.status), k.about, k.remedy))
}

// index links the calls whose path has no parameters.
func (c serverAPI) index() error {
	links := map[string]string{}
	for _, rt := range c.routes {
		if name, ok := strings.CutPrefix(rt.path, "/v1/"); ok && !strings.Contains(name, "/") {
			links[name] = c.url(rt.path)
		}
	}
	return c.json(http.StatusOK, map[string]any{"links": links})
}

// handled passes a call to a handler.
func handled(h http.Handler) func(*call) error {
	return func(c *call) error {
		h.ServeHTTP(c.w, c.r)
		return nil
	}
}

func (c serverAPI) healthz() error { return c.text(http.StatusOK, "ok\n") }

// readyz answers 200 as long as results can be read and followed, even if the disk is
// full or an endpoint added lately is not there yet.
func (c serverAPI) readyz() error {
	if err := c.Health.Ready(); err != nil {
		return later("not-ready", time.Second, err.Error())
	}
	text := "ready"
	if s := c.Health.Disk(); s.ReadOnly {
		text += ", read-only: " + s.Reason
	} else if s.Reason != "" {
		text += ", short of storage: " + s.Reason
	}
	if n := c.Health.Starting(); n > 0 {
		text += fmt.Sprintf(", endpoints that still read their queries: %d", n)
	}
	return c.text(http.StatusOK, text+"\n")
}

func (c serverAPI) cluster() error {
	s, err := c.Cluster.Status()
	return c.reply(http.StatusOK, s, err)
}

// drain makes a node give away what it owns. That takes some seconds; the status shows it.
func (c serverAPI) drain() error {
	if err := c.Cluster.Drain(c.r.PathValue("name")); err != nil {
		return err
	}
	s, err := c.Cluster.Status()
	return c.reply(http.StatusAccepted, s, err)
}
