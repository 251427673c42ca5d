package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// HandlerOptions say what a Handler allows. The zero value serves queries only.
type HandlerOptions struct {
	// AllowUpdate allows updates by clients on this machine: the connection must
	// come from a loopback address without a proxy, for a loopback Host, and not
	// from another site's page in a browser.
	AllowUpdate bool
	Logger      *slog.Logger // nil = silent
}

const (
	mostBody  = 64 << 20    // bytes of a request
	queue     = 64          // requests that run or wait for the engine
	writeTime = time.Minute // for a client to read an answer
)

// Handler serves the SPARQL 1.1 Protocol, query and update, for an engine.
// Mount it at /sparql.
//
// Answers have a strong ETag that changes with the data, unless the query may
// have different answers on the same data. Errors are text/plain: 400 for what
// the engine cannot parse, 403, 405, 406, 413, 415, 421 (a request from this
// machine under a foreign host name), 500 for what the engine cannot run, 503
// with Retry-After for overload. A query ends when its client disconnects.
func Handler(e *Engine, o HandlerOptions) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &handler{engine: e, options: o, mostBody: mostBody, places: make(chan struct{}, queue)}
}

type handler struct {
	engine   *Engine
	options  HandlerOptions
	mostBody int64
	places   chan struct{}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	status, err := h.serve(w, r)
	if err != nil {
		status = fail(w, err)
	}
	h.options.Logger.Debug("sparql", "method", r.Method, "status", status, "took", time.Since(started), "err", err)
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request) (status int, err error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		return 0, refuse(http.StatusMethodNotAllowed, "method %s is not supported", r.Method)
	}
	if fromLoopback(r) && !noRebinding(r.Host) {
		return 0, refuse(http.StatusMisdirectedRequest, "address this endpoint as localhost or by its IP address")
	}
	select {
	case h.places <- struct{}{}:
		defer func() { <-h.places }()
	default:
		return 0, refuse(http.StatusServiceUnavailable, "too many requests wait for the engine")
	}
	o, err := parseRequest(r, h.mostBody)
	if err != nil {
		return 0, err
	}
	if o.update {
		return h.update(w, r, o)
	}
	return h.query(w, r, o)
}

func (h *handler) update(w http.ResponseWriter, r *http.Request, o operation) (int, error) {
	if !h.options.AllowUpdate {
		return 0, refuse(http.StatusForbidden, "this endpoint does not take updates")
	}
	if err := fromThisMachine(r); err != nil {
		return 0, err
	}
	if err := h.engine.Update(r.Context(), o.text); err != nil {
		return 0, err
	}
	w.WriteHeader(http.StatusNoContent)
	return http.StatusNoContent, nil
}

func (h *handler) query(w http.ResponseWriter, r *http.Request, o operation) (int, error) {
	offered := rowTypes
	if form := queryForm(o.text); form == "CONSTRUCT" || form == "DESCRIBE" {
		offered = graphTypes
	}
	header := w.Header()
	header.Set("Vary", "Accept")
	chosen, ok := negotiate(r.Header.Values("Accept"), offered)
	if !ok {
		return 0, refuse(http.StatusNotAcceptable, "none of the accepted types can be sent; there are %s", typeNames(offered))
	}
	steady := !volatile(o.text)
	if steady {
		if tag := etag(h.engine.Version(), o, chosen); noneMatch(r, tag) {
			header.Set("ETag", tag)
			w.WriteHeader(http.StatusNotModified)
			return http.StatusNotModified, nil
		}
	}
	result, version, err := h.engine.query(r.Context(), o.text, chosen.format, o.defaultGraphs, o.namedGraphs)
	if err != nil {
		return 0, err
	}
	if steady {
		header.Set("ETag", etag(version, o, chosen))
	}
	contentType := chosen.mediaTypes[0]
	if strings.HasPrefix(contentType, "text/") {
		contentType += "; charset=utf-8"
	}
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(result)))
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		// A client that does not read must not keep its place in the queue.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
		_, _ = w.Write(result) // the client may be gone; there is no one to report an error to
	}
	return http.StatusOK, nil
}

// etag identifies an answer by the version of the data, the question and the
// format.
func etag(version string, o operation, chosen representation) string {
	sum := sha256.New()
	for _, part := range [][]string{{o.text, chosen.format}, o.defaultGraphs, o.namedGraphs} {
		fmt.Fprintf(sum, "%q\n", part)
	}
	return fmt.Sprintf("%q", version+"-"+hex.EncodeToString(sum.Sum(nil)[:8]))
}

func noneMatch(r *http.Request, tag string) bool {
	if r.Method == http.MethodPost {
		return false
	}
	for given := range strings.SplitSeq(strings.Join(r.Header.Values("If-None-Match"), ","), ",") {
		given = strings.TrimPrefix(strings.TrimSpace(given), "W/")
		if given == tag {
			return true
		}
	}
	return false
}

func typeNames(offered []representation) string {
	names := make([]string, len(offered))
	for n, o := range offered {
		names[n] = o.mediaTypes[0]
	}
	return strings.Join(names, ", ")
}

// fromThisMachine refuses updates that only seem to come from this machine:
// through a proxy, or from another site's page in a browser.
func fromThisMachine(r *http.Request) error {
	if !fromLoopback(r) {
		return refuse(http.StatusForbidden, "updates are accepted from this machine only")
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded") || name == "Forwarded" || name == "X-Real-Ip" || name == "Via" {
			return refuse(http.StatusForbidden, "updates are not accepted through a proxy")
		}
	}
	if !loopbackHost(r.Host) {
		return refuse(http.StatusForbidden, "updates are accepted for a loopback host only")
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return refuse(http.StatusForbidden, "updates are not accepted from another site's page")
	}
	return nil
}

func fromLoopback(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}

func loopbackHost(host string) bool {
	name := hostName(host)
	address, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// noRebinding reports whether a Host is safe from DNS rebinding, in which a
// page's name is bound to this machine to read what is served here. An IP
// address has no name to rebind.
func noRebinding(host string) bool {
	name := hostName(host)
	_, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil
}

// hostName is a Host without its port; "" if the port is invalid.
func hostName(host string) string {
	if name, port, err := net.SplitHostPort(host); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return ""
		}
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// fail writes an error as text and returns its status.
func fail(w http.ResponseWriter, err error) int {
	status, text := http.StatusInternalServerError, err.Error()
	var refused *refusal
	var said *CallError
	switch {
	case errors.As(err, &refused):
		status = refused.status
	case errors.As(err, &said):
		text = said.Message
		if said.Kind == ErrSyntax {
			status = http.StatusBadRequest
		}
	case errors.Is(err, ErrCut), errors.Is(err, ErrClosed):
		status = http.StatusServiceUnavailable
	}
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	if status == http.StatusServiceUnavailable {
		header.Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
	return status
}
