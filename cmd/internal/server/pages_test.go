package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/config"
)

// The page for a new endpoint says on a server without a contact that public endpoints need one.
func TestPageWithoutContact(t *testing.T) {
	for _, contact := range []string{"", "mailto:ops@example.org"} {
		_, nodes := startNodes(t, 1, "", func(n *node) { n.conf = func(c *config.Config) { c.Contact = contact } })
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/add-endpoint", nil)
		r.Host = "localhost"
		nodes[0].http.Handler.ServeHTTP(w, r)
		if said := strings.Contains(w.Body.String(), "This server has no contact."); w.Code != http.StatusOK || said != (contact == "") {
			t.Errorf("contact %q: status %d, says that there is none: %v", contact, w.Code, said)
		}
	}
}
