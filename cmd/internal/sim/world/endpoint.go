package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// subject is the subject of a query. In a merged request it follows the member's number.
var subject = regexp.MustCompile(`(?:(\d+) )?<http://sim/q/(\d+)>`)

// holds is the predicate of all data.
const holds = "http://sim/holds"

// entity is the subject of a query.
func entity(i int) string { return fmt.Sprint("http://sim/q/", i) }

// query returns the text of a query.
func query(i int) string {
	return fmt.Sprintf("SELECT ?v { <http://sim/q/%d> <http://sim/holds> ?v }", i)
}

// An endpoint answers the queries of the plan, and does wrong what the plan says.
type endpoint struct {
	w    *world
	rand *rand.Rand
	n    int // requests of this life
}

func (w *world) serveEndpoint() {
	e := &endpoint{w: w, rand: rand.New(rand.NewPCG(w.Seed, uint64(w.offset)))}
	last := map[net.Conn]*int{} // the number of the last request that came by a connection
	serveBy(endpointAddress, &http.Server{Handler: e,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			last[c] = new(int)
			return context.WithValue(ctx, e, last[c])
		},
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateClosed && last[c] != nil {
				w.write(plan.Event{Kind: plan.Closed, N: *last[c]})
				delete(last, c)
			}
		}})
}

func serve(address string, h http.Handler) { serveBy(address, &http.Server{Handler: h}) }

func serveBy(address string, s *http.Server) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		err = s.Serve(l)
	}
	fmt.Println(err)
	os.Exit(2)
}

// ServeHTTP is called by one goroutine at a time only between two calls that wait, since
// the machine has one thread.
func (e *endpoint) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := e.w
	text := r.FormValue("query")
	merged := false
	var members, numbers []int
	if !strings.Contains(text, "?label") { // there are no labels
		for _, m := range subject.FindAllStringSubmatch(text, -1) {
			i, _ := strconv.Atoi(m[2])
			n, _ := strconv.Atoi(m[1])
			merged = merged || m[1] != ""
			members, numbers = append(members, i), append(numbers, n)
		}
	}
	e.n++
	n := e.n
	*r.Context().Value(e).(*int) = n
	if agent := "Freshet/" + cli.Release; !strings.HasPrefix(r.UserAgent(), agent) {
		w.write(plan.Event{Kind: plan.Problem, Text: fmt.Sprintf("a request is one of %q, not of %q", r.UserAgent(), agent)})
	}
	node := 0
	if _, number, found := strings.Cut(r.UserAgent(), contact); found {
		node, _ = strconv.Atoi(strings.TrimSuffix(number, ")"))
	}
	w.write(plan.Event{Kind: plan.Ask, Who: node, N: n, Members: members})
	fault := e.fault(w.now(), n)
	cost := time.Duration(0)
	for _, i := range members {
		cost += w.Queries[i].Cost
	}
	if merged {
		cost /= 2
	}
	if fault.Kind == plan.Late {
		cost += fault.Delay
	}
	end := plan.Event{Kind: plan.Answer, N: n, Members: members, Text: fault.Kind}
	defer func() { w.write(end) }()
	switch fault.Kind {
	case plan.Busy:
		if fault.Delay > 0 {
			rw.Header().Set("Retry-After", strconv.Itoa(int(fault.Delay/time.Second)))
		}
		end.Prev = uint64(fault.Delay)
		rw.WriteHeader(http.StatusTooManyRequests)
		return
	case plan.Broken:
		http.Error(rw, "out of memory", http.StatusInternalServerError)
		return
	case plan.Reset:
		panic(http.ErrAbortHandler)
	case plan.Silent:
		<-r.Context().Done()
		return
	}
	select {
	case <-time.After(cost):
	case <-r.Context().Done():
		end.Text = plan.Silent
		return
	}
	var body []byte
	if text == positionQuery {
		body = e.position()
	} else {
		body = e.answer(&end, text, members, numbers, merged, fault)
	}
	if fault.Kind == plan.Short {
		rw.Header().Set("X-SPARQL-MaxRows", "1")
	}
	rw.Header().Set("Content-Type", "application/sparql-results+json")
	switch fault.Kind {
	case plan.Garbage:
		body = []byte("<html>maintenance</html>")
	case plan.Cut:
		rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
		rw.Write(body[:e.rand.IntN(len(body))])
		panic(http.ErrAbortHandler)
	}
	rw.Write(body)
}

// fault returns what goes wrong with request n; the zero value for nothing.
func (e *endpoint) fault(at time.Duration, n int) plan.Fault {
	for _, f := range e.w.Faults {
		if f.Holds(at) && n%f.Every == 0 {
			return f
		}
	}
	return plan.Fault{}
}

const integer = "http://www.w3.org/2001/XMLSchema#integer"

type term map[string]string

// answer writes the result of a request in an order of its own.
func (e *endpoint) answer(end *plan.Event, text string, members, numbers []int, merged bool, f plan.Fault) []byte {
	at := e.w.Shown(e.w.now())
	if f.Kind == plan.Old {
		at = max(0, at-f.Delay)
	}
	vars, bindings := []string{"v"}, []map[string]term{}
	watch := strings.Contains(text, "?property")
	switch {
	case len(members) == 0:
		vars = []string{"iri", "label"}
	case watch:
		vars = []string{"property", "value"}
	}
	if merged {
		vars = append([]string{"i"}, vars...)
	}
	for k, i := range members {
		rows := e.w.Queries[i].Rows(at)
		end.Rows = append(end.Rows, rows)
		for _, v := range rows {
			b := map[string]term{"v": {"type": "literal", "value": strconv.Itoa(v)}}
			if watch {
				b = map[string]term{"property": {"type": "uri", "value": holds}, "value": b["v"]}
			}
			if merged {
				b["i"] = term{"type": "literal", "value": strconv.Itoa(numbers[k]), "datatype": integer}
			}
			bindings = append(bindings, b)
		}
	}
	e.rand.Shuffle(len(bindings), func(i, k int) { bindings[i], bindings[k] = bindings[k], bindings[i] })
	if f.Kind == plan.Short && len(bindings) > 1 {
		bindings = bindings[:1]
	}
	return result(vars, bindings)
}

func result(vars []string, bindings []map[string]term) []byte {
	b, _ := json.Marshal(map[string]any{"head": map[string]any{"vars": vars}, "results": map[string]any{"bindings": bindings}})
	return b
}
