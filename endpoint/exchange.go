package endpoint

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/freshet/freshet/endpoint/formats"
)

// errorBody is how many bytes of a refusal are read.
const errorBody = 16 << 10

// An exchange is the answer to a request, read to its end or to the limit.
type exchange struct {
	status int
	header http.Header
	*body
	framed bool  // a missing end would have been detected
	err    error // why the body is incomplete
}

// A body is a decompressed body. It is digested while it is read, when its bytes
// are still in the processor's caches.
type body struct {
	buf    bytes.Buffer
	digest *xxh3.Hasher
}

var (
	errTooLarge = errors.New("the answer is larger than max_bytes")
	errCoding   = errors.New("the answer has a Content-Encoding that was not requested")
	errRedirect = errors.New("redirect refused")
	errSecret   = errors.New("credentials cannot be read")
)

// exchange sends r and reads the answer. It returns an error, and status 0,
// only if there was no answer. An error while reading the body is in the
// exchange.
func (c *Client) exchange(t *timer, r *request, m Memory) (*exchange, error) {
	o := c.guardResend(t)
	defer o.cancel(nil)
	resp, err := c.send(o.ctx, r, m)
	if err != nil {
		return &exchange{body: c.buffer()}, o.failed(err)
	}
	defer resp.Body.Close()
	x := &exchange{status: resp.StatusCode, header: resp.Header, body: c.buffer()}
	limit := int64(c.settings.MaxBytes)
	if x.status != http.StatusOK {
		limit = min(limit, errorBody)
	}
	x.read(resp, limit)
	for name, values := range resp.Trailer { // may report that the body is incomplete
		if strings.HasPrefix(name, "X-Sql-") && len(values) > 0 {
			x.header[name] = values
		}
	}
	return x, nil
}

// send makes the round trip, and repeats it if the first answer is a challenge
// that can be met.
func (c *Client) send(ctx context.Context, r *request, m Memory) (*http.Response, error) {
	for again := false; ; again = true {
		req, err := r.with(ctx, m, again)
		if err != nil {
			return nil, err
		}
		if err := c.auth.authorize(req); err != nil {
			return nil, err
		}
		resp, err := c.http.Do(req)
		if err != nil || again || resp.StatusCode != http.StatusUnauthorized || !c.auth.challenged(resp.Header) {
			return resp, err
		}
		_, _ = io.CopyN(io.Discard, resp.Body, errorBody) // so that the connection can be reused
		resp.Body.Close()
	}
}

// read reads at most limit bytes of the body.
func (x *exchange) read(resp *http.Response, limit int64) {
	coding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding")))
	plain := coding == "" || coding == "identity"
	// Without a length, chunks or HTTP/2 frames only the end of the connection
	// ends the body, and a server that dies looks the same. TLS does not help: the
	// library accepts a missing close_notify.
	x.framed = resp.ContentLength >= 0 || len(resp.TransferEncoding) > 0 || resp.ProtoMajor > 1
	if plain && resp.ContentLength > limit && x.status == http.StatusOK {
		x.err = errTooLarge
		return
	}
	var body io.Reader = resp.Body
	if coding == "gzip" || coding == "x-gzip" {
		if body, x.err = gzip.NewReader(resp.Body); x.err != nil {
			x.err = fmt.Errorf("gzip: %w", unexpected(x.err))
			return
		}
		x.framed = true // the trailer has length and checksum
	} else if !plain {
		x.err = fmt.Errorf("%w: %s", errCoding, formats.OneLine(coding))
		return
	}
	if plain && resp.ContentLength > 0 {
		x.buf.Grow(int(min(resp.ContentLength, 1<<20)) + bytes.MinRead)
	}
	body = io.LimitReader(body, limit+1)
	if x.status == http.StatusOK {
		body = io.TeeReader(body, x.digest)
	}
	_, err := x.buf.ReadFrom(body)
	x.err = unexpected(err)
	if int64(x.buf.Len()) > limit {
		x.err = errTooLarge
	}
}

// unexpected turns an io.EOF that is an error into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (c *Client) buffer() *body {
	b, ok := c.buffers.Get().(*body)
	if !ok {
		return &body{digest: xxh3.NewSeed(c.seed)}
	}
	b.buf.Reset()
	b.digest.Reset()
	return b
}

// release returns the body's memory to the pool. Nothing may refer to it
// afterwards.
func (c *Client) release(x *exchange) { c.buffers.Put(x.body) }

// checkRedirect follows redirects only to the same host, including from http to
// https. Credentials and queries are for the configured endpoint.
func checkRedirect(req *http.Request, via []*http.Request) error {
	from, to := via[0].URL, req.URL
	same := from.Scheme == to.Scheme && from.Host == to.Host
	secured := from.Scheme == "http" && to.Scheme == "https" && from.Port() == "" && to.Port() == "" &&
		from.Hostname() == to.Hostname()
	switch {
	case !same && !secured:
		return fmt.Errorf("%w: it leads to another host: %s://%s", errRedirect, to.Scheme, to.Host)
	case via[0].Method != req.Method:
		return fmt.Errorf("%w: it would lose the query; set url to %s://%s%s", errRedirect, to.Scheme, to.Host, to.Path)
	case len(via) > 3:
		return fmt.Errorf("%w: more than 3 in a row", errRedirect)
	}
	return nil
}
