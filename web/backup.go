package web

import (
	"fmt"
	"net/http"

	"github.com/freshet/freshet/web/client"
	"github.com/freshet/freshet/web/docs"
)

// backup streams a consistent copy of the live store. Only one runs at a time.
func backup(c *call) error {
	leave, err := c.exclusive(c.dear)
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
	if _, err := c.Store.Backup(c.patient()); err != nil {
		return fmt.Errorf("backup: %w", err) // closes the connection if part of the body has been sent
	}
	return nil
}

func openAPI(c *call) error  { return c.document(docs.OpenAPI) }
func asyncAPI(c *call) error { return c.document(docs.AsyncAPI) }

func (c *call) document(b []byte) error {
	c.w.Header().Set("Cache-Control", "no-cache")
	return c.bytes(http.StatusOK, "application/yaml", b)
}

func clientScript(c *call) error { return c.asset("text/javascript; charset=utf-8", client.Script) }
func clientTypes(c *call) error {
	return c.asset("application/typescript; charset=utf-8", client.Types)
}

// asset is a file that pages of any origin may load. It holds no data.
func (c *call) asset(mediaType string, b []byte) error {
	h := c.w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Cache-Control", "no-cache")
	return c.bytes(http.StatusOK, mediaType, b)
}
