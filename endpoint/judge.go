package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/formats"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
)

// result is a verdict without a result: an outcome and its reason.
func result(o registry.Outcome, why string) verdict {
	return verdict{Answer: Answer{Outcome: o, Error: why}}
}

// judge decides the outcome of an exchange. Decoding the body is part of the
// execution and ends when its time does.
func (c *Client) judge(x *exchange, err error, q *registry.Query, r *request, m Memory, t *timer) verdict {
	if err == nil {
		err = x.err
	}
	waits := x.status == http.StatusTooManyRequests || x.status == http.StatusServiceUnavailable
	if err != nil && !waits { // otherwise the outcome is certain whatever the body is
		if o, why, over := t.expired(); over {
			v := result(o, why)
			v.down = o == registry.Timeout
			return v
		}
	}
	switch {
	case x.status == 0:
		return unreachable(err)
	case x.status == http.StatusOK:
		return c.judgeOK(x, q, r, m, t)
	case x.status == http.StatusNotModified:
		return notModified(x, r, m)
	}
	return c.refusal(x)
}

// judgeOK makes the cheapest checks first.
func (c *Client) judgeOK(x *exchange, q *registry.Query, r *request, m Memory, t *timer) verdict {
	if why := warning(x.header); why != "" {
		return result(registry.Partial, why)
	}
	if x.err != nil {
		return broken(x.err, c.settings.MaxBytes.String())
	}
	body := x.buf.Bytes()
	f, err := formats.Detect(q.Form, x.header.Get("Content-Type"), body)
	if err != nil {
		return result(registry.Partial, err.Error())
	}
	if !x.framed && !f.Delimited() {
		return result(registry.Partial, "the connection ended without saying whether the answer had")
	}
	cap := c.rowCapFor(q, x.header)
	sum := c.fingerprint(x.digest.Sum128(), cap)
	if sum == m.Body {
		return verdict{Answer: Answer{Outcome: registry.Unchanged, Memory: newMemory(sum, x.header, r.identity, m.Vars)}}
	}
	var head []string
	reading := c.reading(q, m, cap, t)
	reading.Head = func(vars []string) { head = vars }
	res, n, err := formats.Decode(f, body, q.Form, reading)
	switch {
	case errors.Is(err, formats.ErrStopped):
		return t.unread()
	case errors.Is(err, diff.ErrColumnLimit):
		return result(registry.Failed, fmt.Sprintf("the answer has more than %d columns; name those that are needed, or set "+
			"max_columns", c.settings.MaxColumns))
	case errors.Is(err, diff.ErrRowLimit):
		return result(registry.Partial, fmt.Sprintf("more rows or triples than the endpoint's cap of %d%s", cap.rows, cap.source()))
	case errors.Is(err, diff.ErrByteLimit):
		return result(registry.Failed, fmt.Sprintf("%v of %s", errTooLarge, c.settings.MaxBytes))
	case err != nil:
		return result(registry.Partial, "not a complete answer: "+formats.OneLine(err.Error())+formats.Quote(body))
	case cap.reached(q, n):
		return result(registry.Partial, fmt.Sprintf("%d rows or triples, and the endpoint stops at %d%s", n, cap.rows, cap.source()))
	case cap.suspected(q, n, x.header):
		return result(registry.Partial, fmt.Sprintf("%d triples are what a Virtuoso sends that stops at %d; set max_rows to its "+
			"ResultSetMaxRows", n, usualCap))
	}
	if name := foreign(q, head, m.Vars); name != "" {
		return result(registry.Partial, fmt.Sprintf("the answer has a column ?%s, which the query does not ask for: a proxy or a "+
			"cache may mix answers up", formats.OneLine(name)))
	}
	if q.Form == diff.Select && !q.Merged && len(head) == 0 && n > 0 && sparql.NamesColumns(q.Text) {
		return result(registry.Partial, "the answer has rows but none of the columns that the query asks for")
	}
	if !q.Form.Graph() && cap.told == 0 {
		c.health.exceeded(n) // if it had a cap, the cap has been raised
	}
	return verdict{Answer: Answer{Outcome: registry.Changed, Result: res, Memory: newMemory(sum, x.header, r.identity, res.Vars())}}
}

// foreign returns a column that q does not ask for, "" if there is none. Those of the last complete
// answer need no look. The columns of a merged query are checked where its answer is split.
func foreign(q *registry.Query, columns, known []string) string {
	if q.Form != diff.Select || q.Merged || slices.Equal(columns, known) {
		return ""
	}
	return sparql.ForeignColumn(q.Text, columns)
}

// reading returns the options of reading the answer to q.
func (c *Client) reading(q *registry.Query, m Memory, k rowCap, t *timer) diff.Options {
	o := diff.Options{
		Ordered: q.Ordered, OrderKeys: q.OrderKeys, KeepLabels: q.Merged, Vars: m.Vars,
		MaxRows: k.stop(q), MaxBytes: int(c.settings.MaxBytes), MaxVars: c.settings.MaxColumns, Stop: t.stop,
	}
	if q.Merged && o.MaxVars > 0 {
		o.MaxVars++ // the number of the member
	}
	return o
}

// warning returns what Virtuoso reports in headers if an answer with status 200
// is incomplete, for example S1TAT for its time limit.
func warning(h http.Header) string {
	state, message := h.Get("X-Sql-State"), h.Get("X-Sql-Message") // as net/http spells it
	if state == "" && message == "" {
		return ""
	}
	return formats.Bounded("the endpoint says that the answer is not whole: " + formats.OneLine(state+" "+message))
}

// broken is the verdict on a body that did not arrive completely.
func broken(err error, limit string) verdict {
	switch {
	case errors.Is(err, errTooLarge):
		return result(registry.Failed, fmt.Sprintf("%v (%s)", err, limit))
	case errors.Is(err, errCoding):
		return result(registry.Failed, err.Error())
	}
	v := result(registry.Partial, "the answer was cut off: "+formats.OneLine(err.Error()))
	return v
}

func notModified(x *exchange, r *request, m Memory) verdict {
	switch {
	case !r.conditional(m):
		return result(registry.Failed, "status 304 although the request was not conditional")
	case warning(x.header) != "":
		return result(registry.Partial, warning(x.header))
	}
	return verdict{Answer: Answer{Outcome: registry.Unchanged, Memory: r.confirmed(m)}}
}

// A rowCap is the number of rows or triples at which the endpoint stops, 0 if
// unknown, and its source: reported with this answer, or learnt from another
// one.
type rowCap struct{ rows, told, learnt int }

// rowCapFor returns the lower of the caps in the settings and in the answer.
// Virtuoso reports its cap for rows only, and only when they reached it, but
// applies it to triples too: for those its last report counts.
func (c *Client) rowCapFor(q *registry.Query, h http.Header) rowCap {
	var k rowCap
	if said := number(h.Get("X-Sparql-Maxrows")); said > 0 {
		k.told = int(said)
		c.health.told(k.told)
	} else if q.Form.Graph() {
		k.learnt = c.health.maxRows()
	}
	if q.Form == diff.Ask {
		return k
	}
	for _, n := range []int{c.settings.MaxRows, k.told, k.learnt} {
		if n > 0 && (k.rows == 0 || n < k.rows) {
			k.rows = n
		}
	}
	return k
}

// source says where the cap comes from, and what to do if it is wrong.
func (k rowCap) source() string {
	switch k.rows {
	case k.learnt:
		return ", as it reported with another answer; editing max_rows forgets that"
	case k.told:
		return ", as it reports; request less"
	}
	return " (max_rows)"
}

// reached reports whether n rows leave open whether there are more. For rows,
// the query's own LIMIT within the cap decides. For graphs, LIMIT bounds
// solutions, while Virtuoso caps triples: there LIMIT decides only if each
// solution gives one triple.
func (k rowCap) reached(q *registry.Query, n int) bool {
	if k.rows == 0 || n < k.rows {
		return false
	}
	own := q.Limit >= 0 && q.Limit <= int64(k.rows)
	if own && q.Form.Graph() {
		own = int64(n) <= q.Limit && sparql.OneTriple(q.Text)
	}
	return !own
}

// usualCap is the ResultSetMaxRows of Virtuoso's default configuration, which
// DBpedia uses too.
const usualCap = 10000

// suspected reports whether n is the number of triples that a Virtuoso sends
// when it stopped at the usual cap: one more than the cap, without any sign of
// it.
func (k rowCap) suspected(q *registry.Query, n int, h http.Header) bool {
	return k.rows == 0 && q.Form.Graph() && n == usualCap+1 && strings.HasPrefix(h.Get("Server"), "Virtuoso") &&
		rowCap{rows: usualCap}.reached(q, n)
}

// stop is the number of rows after which reading is pointless; 0: none.
func (k rowCap) stop(q *registry.Query) int {
	if k.rows == 0 || !k.reached(q, k.rows+1) {
		return 0
	}
	return k.rows
}

// fingerprint combines the digest of a body with the cap that it was judged
// under. If the cap falls to the number of rows, equal bytes no longer mean that
// the answer is complete. Zero is reserved for "unknown".
func (c *Client) fingerprint(body xxh3.Uint128, k rowCap) [2]uint64 {
	if k.rows != 0 {
		sum := body.Bytes()
		body = xxh3.Hash128Seed(sum[:], c.seed^uint64(k.rows)*0x9e3779b97f4a7c15)
	}
	if body.Hi == 0 && body.Lo == 0 {
		body.Lo = 1
	}
	return [2]uint64{body.Hi, body.Lo}
}

// refusal is the verdict on any status except 200 and 304.
func (c *Client) refusal(x *exchange) verdict {
	text := formats.ErrorText(x.header.Get("Content-Type"), x.buf.Bytes())
	say := func(o registry.Outcome, what string) verdict {
		if text != "" {
			what += ": " + text
		}
		return result(o, formats.Bounded(fmt.Sprintf("%d %s", x.status, what)))
	}
	down := func(v verdict) verdict {
		v.down = true
		return v
	}
	switch x.status {
	case http.StatusNonAuthoritativeInfo, http.StatusPartialContent:
		return say(registry.Partial, "the endpoint says that the answer is not entirely its own")
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnprocessableEntity:
		return say(registry.Rejected, "the endpoint refuses this query")
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return down(say(registry.Failed, "the endpoint does not accept our credentials (auth) or needs some"))
	case http.StatusNotFound, http.StatusGone:
		return down(say(registry.Failed, "there is no endpoint at this URL"))
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return down(say(registry.Timeout, "the endpoint's time ran out"))
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		v := say(registry.Throttled, "the endpoint asks us to wait")
		v.wait = RetryAfter(x.header, c.health.clock())
		return v
	}
	if x.status < 500 {
		return say(registry.Failed, "unexpected status "+http.StatusText(x.status))
	}
	switch o := virtuosoOutcome(text); o {
	case registry.Rejected:
		return say(o, "the endpoint refuses this query")
	case registry.Timeout:
		return say(o, "the endpoint's time for a query ran out")
	}
	return down(say(registry.Failed, "the endpoint failed"))
}

// virtuosoOutcome decides from the text of a Virtuoso error with status 500
// whether it is about this query or about the endpoint. 42000 is the code of
// the cost estimate, but also of missing rights.
func virtuosoOutcome(text string) registry.Outcome {
	rest, ok := strings.CutPrefix(text, "Virtuoso ")
	if !ok {
		return registry.Failed
	}
	code, words, _ := strings.Cut(rest, " ")
	lower := strings.ToLower(words)
	switch {
	case strings.HasPrefix(code, "S1T"):
		return registry.Timeout
	case strings.Contains(lower, "permission") || strings.Contains(lower, "access") || strings.Contains(lower, "not allowed"):
		return registry.Failed
	case code == "42000", strings.HasPrefix(code, "37"), strings.HasPrefix(code, "22"):
		return registry.Rejected
	}
	return registry.Failed
}

// RetryAfter reads seconds or a date of a header, 0 if it says nothing. A date is relative to the answer's own
// Date, so that a wrong clock on either side does no harm.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	s := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseInt(s, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) { // on ErrRange n is the nearest value
		return time.Duration(min(max(n, 1), int64(longestWait/time.Second))) * time.Second
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0
	}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	return max(at.Sub(now), time.Second)
}

func age(h http.Header) time.Duration {
	return time.Duration(min(number(h.Get("Age")), 1<<31)) * time.Second // RFC 9111 allows no more
}

// number reads a header's number; 0 if it is none or negative.
func number(s string) int64 {
	if s = strings.TrimSpace(s); s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// unreachable is the verdict on a request without an answer.
func unreachable(err error) verdict {
	v := result(registry.Failed, formats.Bounded(formats.OneLine(describe(err))))
	v.down = !errors.Is(err, errSecret)
	return v
}

// describe says in plain terms why there is no answer.
func describe(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // its text repeats the URL including the query
	}
	var dns *net.DNSError
	switch {
	case errors.Is(err, errRedirect), errors.Is(err, errSecret):
		return err.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens at the endpoint's address"
	case errors.As(err, &dns):
		return "the endpoint's host name cannot be resolved: " + dns.Err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the endpoint closed the connection without an answer"
	case errors.Is(err, context.DeadlineExceeded):
		return "the endpoint could not be reached in time"
	}
	return "the request to the endpoint failed: " + err.Error()
}
