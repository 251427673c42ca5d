package deliver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"
)

// A Client makes the calls of an engine to receivers that speak HTTP.
type Client struct {
	http      *http.Client
	userAgent string
	total     time.Duration
	now       func() time.Time
}

// Now returns the time, for what a request says of it.
func (c *Client) Now() time.Time { return c.now() }

// newClient returns a client that reports to dialled whether a host's address is in a listed
// network. It does not follow redirects.
func newClient(o *Options, dialled func(host string, trusted bool)) *Client {
	return &Client{userAgent: o.UserAgent, total: o.Timing.Total, now: o.Now, http: &http.Client{
		Transport:     o.Guard.transport(o.Timing, o.Limits.Wide, dialled),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// HTTP returns a Call.Send that makes a request and reads at most a number of bytes of the
// answer, and one.
func HTTP(method, url string, header http.Header, body []byte, read int) func(context.Context, *Client) Reply {
	return func(ctx context.Context, c *Client) Reply { return c.do(ctx, method, url, header, body, read) }
}

func (c *Client) do(ctx context.Context, method, url string, header http.Header, body []byte, read int) (r Reply) {
	r.Sent = c.now()
	defer func() { r.At = c.now() }()
	ctx, cancel := context.WithTimeout(ctx, c.total)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		r.Err = err
		return r
	}
	if header != nil {
		req.Header = header.Clone()
	}
	req.Header.Set("User-Agent", c.userAgent)
	resp, err := c.http.Do(req)
	if err != nil {
		r.Err = err
		return r
	}
	defer resp.Body.Close()
	r.Status = resp.StatusCode
	r.Wait = retryAfter(resp, r.Sent)
	if read > 0 {
		var err error
		if r.Body, err = io.ReadAll(io.LimitReader(resp.Body, int64(read)+1)); r.OK() {
			r.Err = err
		}
	}
	// Read a short rest so that the connection can be reused.
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	return r
}

// retryAfter returns how long a receiver wants no call that is busy or was called too often.
func retryAfter(resp *http.Response, now time.Time) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	text := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}
