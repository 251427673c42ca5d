package main

// This file has the receivers of messages: webhooks, subscribers of WebSub, people, and those of alerts.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// serveReceivers receives the messages of all receivers. The path names the kind and the number.
func (w *world) serveReceivers() {
	mux := http.NewServeMux()
	follower := func(path string, take func(i int, rw http.ResponseWriter, r *http.Request, body []byte)) {
		mux.HandleFunc(path, func(rw http.ResponseWriter, r *http.Request) {
			i, err := strconv.Atoi(r.PathValue("i"))
			if err != nil || i >= len(w.Followers) {
				http.NotFound(rw, r)
				return
			}
			f := w.Followers[i]
			w.receive(rw, r, f.Away, f.Trouble, func(rw http.ResponseWriter, body []byte) { take(i, rw, r, body) })
		})
	}
	follower("POST /webhook/{i}", w.takeWebhook)
	follower("POST /people/{i}", w.takeWords)
	follower("POST /websub/{i}", w.takeContent)
	mux.HandleFunc("GET /websub/{i}", func(rw http.ResponseWriter, r *http.Request) {
		io.WriteString(rw, r.FormValue("hub.challenge"))
	})
	for path, take := range map[string]func(i int, r *http.Request, body []byte) error{
		"POST /alerts/{i}": w.takeAlert, "POST /manager/{i}/api/v2/alerts": w.takeAlerts,
	} {
		mux.HandleFunc(path, func(rw http.ResponseWriter, r *http.Request) {
			i, err := strconv.Atoi(r.PathValue("i"))
			if err != nil || i >= len(w.Rules) {
				http.NotFound(rw, r)
				return
			}
			x := w.Rules[i]
			w.receive(rw, r, x.Away, x.Trouble, func(rw http.ResponseWriter, body []byte) {
				if err := take(i, r, body); err != nil {
					w.write(plan.Event{Kind: plan.Problem, Text: fmt.Sprintf("rule %d: %v: %s", i, err, body)})
				}
			})
		})
	}
	serve(receiverAddress, mux)
}

// receive takes a message, unless the receiver is in trouble.
func (w *world) receive(rw http.ResponseWriter, r *http.Request, away []plan.Window, trouble string,
	take func(http.ResponseWriter, []byte)) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the server's process ended
	}
	for _, a := range away {
		if !a.Holds(w.now()) {
			continue
		}
		switch trouble {
		case plan.Lost:
			take(discard{}, body)
			panic(http.ErrAbortHandler)
		case plan.Hangs:
			<-r.Context().Done()
			return
		case plan.Resets:
			panic(http.ErrAbortHandler)
		}
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	take(rw, body)
}

// discard is an answer that gets lost.
type discard struct{}

func (discard) Header() http.Header { return http.Header{} }

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func (discard) WriteHeader(int) {}

// takeWebhook drops what was received before, as Standard Webhooks say.
func (w *world) takeWebhook(i int, rw http.ResponseWriter, r *http.Request, body []byte) {
	var m struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		w.write(plan.Event{Kind: plan.Problem, Who: i, Text: err.Error()})
		return
	}
	w.write(plan.Event{Kind: plan.Message, Who: i, Text: m.Type})
	var at position
	recall(i, &at)
	id := r.Header.Get("webhook-id")
	if id == at.ID {
		w.write(plan.Event{Kind: plan.Again, Who: i, Value: 1, Text: id, Wall: int64(at.At)})
		return
	}
	at.At = w.now()
	if err := w.received(i, &at, m.Type, id, string(m.Data)); err != nil {
		rw.WriteHeader(http.StatusBadRequest)
	}
}

// takeContent takes a whole result.
func (w *world) takeContent(i int, _ http.ResponseWriter, _ *http.Request, body []byte) {
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		w.write(plan.Event{Kind: plan.Problem, Who: i, Text: err.Error()})
		return
	}
	w.write(plan.Event{Kind: plan.Content, Who: i, Query: w.Followers[i].Query, Rows: [][]int{d.rows()}})
}

// takeWords reads a text for people.
func (w *world) takeWords(i int, _ http.ResponseWriter, _ *http.Request, body []byte) {
	title, text, _ := strings.Cut(string(body), "\n")
	if title != name(w.Followers[i].Query) {
		w.write(plan.Event{Kind: plan.Problem, Who: i, Text: "a message about something else: " + string(body)})
	}
	w.tell(i, strings.Split(text, "\n"))
}

// tell writes what the lines of a text or letter say.
func (w *world) tell(i int, lines []string) {
	x := plan.Event{Kind: plan.Words, Who: i, Query: w.Followers[i].Query, Rows: [][]int{{}, {}}}
	for _, line := range lines {
		sign, rest, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(rest)
		switch {
		case sign == "+" && err == nil:
			x.Rows[0] = append(x.Rows[0], n)
		case sign == "−" && err == nil:
			x.Rows[1] = append(x.Rows[1], n)
		case sign == "and":
			fmt.Sscanf(rest, "%d more", &x.N)
		case strings.HasPrefix(line, "http://"), strings.HasPrefix(line, "possibly by "):
		case strings.HasSuffix(line, "added") || strings.HasSuffix(line, "removed"):
		default:
			x.Text += line
		}
	}
	if w.Followers[i].Way == plan.Mail && len(x.Rows[0])+len(x.Rows[1])+x.N > 0 { // a letter says more besides
		x.Text = ""
	}
	w.write(x)
}

// An alert is the data of a message to a webhook.
type alert struct {
	State   string            `json:"state"`
	Labels  map[string]string `json:"labels"`
	Summary string            `json:"summary"`
	Epoch   string            `json:"epoch"`
	Seq     uint64            `json:"seq"`
}

// value is the value that an alert is about, 0 for the number of rows.
func value(labels map[string]string) int {
	n, _ := strconv.Atoi(labels["v"])
	return n
}

// takeAlert takes an alert, unless its message came before.
func (w *world) takeAlert(i int, r *http.Request, body []byte) error {
	var m struct {
		Type string `json:"type"`
		Data alert  `json:"data"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	seen := map[string]time.Duration{}
	memory := fmt.Sprint("rule", i)
	recall(memory, &seen)
	id := r.Header.Get("webhook-id")
	if first, again := seen[id]; again {
		w.write(plan.Event{Kind: plan.Again, Who: i, Text: id, Wall: int64(first)})
		return nil
	}
	seen[id] = w.now()
	x := plan.Event{Kind: plan.Fires, Who: i, Query: w.Rules[i].Query, Value: value(m.Data.Labels), Epoch: m.Data.Epoch,
		Seq: m.Data.Seq, Text: id}
	if m.Data.State == "resolved" {
		x.Kind = plan.Resolved
	}
	if want := summary(&w.Rules[i], x.Value); !strings.HasPrefix(m.Data.Summary, want) {
		return fmt.Errorf("the summary is %q, want %q", m.Data.Summary, want)
	}
	w.write(x)
	return keep(memory, seen)
}

// summary is how the summary of an alert begins.
func summary(r *plan.Rule, value int) string {
	if r.Rows {
		return "rows: "
	}
	return fmt.Sprint("value ", value)
}

// A posted alert is one that an Alertmanager got.
type posted struct {
	Labels map[string]string `json:"labels"`
	Starts int64             `json:"starts"`
	Ends   int64             `json:"ends"`
	Over   bool              `json:"over"` // it had ended when it came; a clock that is set back later does not matter
}

// takeAlerts takes alerts as Alertmanager does.
func (w *world) takeAlerts(i int, _ *http.Request, body []byte) error {
	var list []struct {
		Labels map[string]string `json:"labels"`
		Starts jsonTime          `json:"startsAt"`
		Ends   jsonTime          `json:"endsAt"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	known := map[string]posted{}
	memory := fmt.Sprint("rule", i)
	recall(memory, &known)
	for _, a := range list {
		if a.Ends.Before(a.Starts.Time) {
			return fmt.Errorf("the start time must be before the end time")
		}
		known[a.Labels["v"]] = posted{a.Labels, a.Starts.UnixNano(), a.Ends.UnixNano(), a.Ends.UnixNano() <= wall()}
	}
	return keep(memory, known)
}

// readAlerts writes which alerts the server and its Alertmanagers have at the end.
func (w reader) readAlerts() {
	ctx := context.Background()
	for i := range w.Rules {
		var page struct {
			Alerts []struct {
				Labels map[string]string `json:"labels"`
			} `json:"alerts"`
		}
		firing := []int{}
		if _, err := w.call(ctx, http.MethodGet, "/v1/rules/"+ruleName(i)+"/alerts?state=firing&limit=100", nil, &page); err != nil {
			w.write(plan.Event{Kind: plan.Problem, Text: err.Error()})
		}
		for _, a := range page.Alerts {
			firing = append(firing, value(a.Labels))
		}
		w.write(plan.Event{Kind: plan.Firing, Who: i, Query: w.Rules[i].Query, Rows: [][]int{firing}})
		if !w.Rules[i].Manager {
			continue
		}
		known, active := map[string]posted{}, []int{}
		recall(fmt.Sprint("rule", i), &known)
		for _, a := range known {
			if !a.Over && a.Ends > wall() {
				active = append(active, value(a.Labels))
			}
		}
		w.write(plan.Event{Kind: plan.Alerts, Who: i, Query: w.Rules[i].Query, Rows: [][]int{active}})
	}
}

func ruleName(i int) string { return fmt.Sprint("r", i) }

// rule makes a rule at its time, and again in each life, which changes nothing.
func (w *world) rule(ctx context.Context, i int) {
	x := &w.Rules[i]
	if !w.until(ctx, x.From) {
		return
	}
	to := map[string]string{"webhook": fmt.Sprintf("http://%s/alerts/%d", receiverAddress, i)}
	if x.Manager {
		to = map[string]string{"alertmanager": fmt.Sprintf("http://%s/manager/%d", receiverAddress, i)}
	}
	body := map[string]any{"name": ruleName(i), "query": name(x.Query), "for": x.For.String(), "keep_firing_for": x.Keep.String(),
		"to": []any{to}}
	if x.Rows {
		body["when"], body["summary"] = fmt.Sprint("rows > ", x.Above), "rows: ?rows"
	} else {
		v := "?v"
		if w.Queries[x.Query].Watch {
			v = "?value"
		}
		body["when"], body["summary"], body["labels"] = fmt.Sprint(v, " > ", x.Above), "value "+v, map[string]string{"v": v}
	}
	w.make(ctx, "/v1/rules", "/v1/rules/"+ruleName(i), body, func() { w.write(plan.Event{Kind: plan.Ruled, Who: i, Query: x.Query}) })
}

// make posts something unless it is there, again and again while the server cannot take it.
func (w *world) make(ctx context.Context, collection, one string, body map[string]any, made func()) {
	for {
		status, err := w.call(ctx, http.MethodGet, one, nil, nil)
		if err == nil {
			made()
			w.known.add(one)
			return
		}
		if status == http.StatusNotFound {
			status, err = w.call(ctx, http.MethodPost, collection, body, nil)
			if err == nil {
				made()
				w.known.add(one)
				return
			}
			if refused(status, err) && status != http.StatusConflict {
				w.write(plan.Event{Kind: plan.Problem, Text: fmt.Sprintf("%v: %v", body, err)})
				return
			}
		}
		if !w.until(ctx, w.now()+pauseOfHolders) {
			return
		}
	}
}

// addPeople registers the receiver of texts.
func (w *world) addPeople(ctx context.Context, i int) {
	f := w.Followers[i]
	w.unlessFollowed(ctx, i, func() (int, uint64, error) {
		to := fmt.Sprintf("text+http://%s/people/%d", receiverAddress, i)
		if f.Way == plan.Mail {
			to = fmt.Sprintf("mailto:m%d@sim.example", i)
		}
		body := map[string]any{"notify": to, "query": name(f.Query), "name": fmt.Sprint("people", i)}
		if f.Digest != "" {
			body["digest"] = f.Digest
		}
		// An answer may have been lost at the end of a life.
		var page struct {
			Subscriptions []struct {
				Name string `json:"name"`
				Seq  uint64 `json:"seq"`
			} `json:"subscriptions"`
		}
		status, err := w.call(ctx, http.MethodGet, "/v1/subscriptions?limit=1000", nil, &page)
		for _, s := range page.Subscriptions {
			if s.Name == body["name"] {
				return status, s.Seq, err
			}
		}
		var made struct {
			Seq uint64 `json:"seq"`
		}
		if err == nil {
			status, err = w.call(ctx, http.MethodPost, "/v1/receivers", body, &made)
		}
		return status, made.Seq, err
	})
}

// subscribe asks the hub for the results of a query, in each life again: a renewal changes nothing, and a request that was not
// confirmed before a crash is void.
func (w *world) subscribe(ctx context.Context, i int) {
	form := url.Values{"hub.mode": {"subscribe"}, "hub.callback": {fmt.Sprintf("http://%s/websub/%d", receiverAddress, i)}}
	for {
		var is struct {
			ID string `json:"id"`
		}
		status, err := w.call(ctx, http.MethodGet, "/v1/queries/"+name(w.Followers[i].Query), nil, &is)
		if err == nil {
			form.Set("hub.topic", "http://"+w.server()+"/v1/queries/"+is.ID+"/results.srj")
			status, err = w.post(ctx, "/v1/hub", form)
		}
		switch {
		case err == nil:
			w.write(plan.Event{Kind: plan.Hooked, Who: i, Query: w.Followers[i].Query})
			return
		case refused(status, err):
			w.write(plan.Event{Kind: plan.Problem, Who: i, Text: err.Error()})
			return
		}
		if !w.until(ctx, w.now()+pauseOfHolders) {
			return
		}
	}
}

// unlessFollowed subscribes follower i unless the server has confirmed that in an earlier life.
func (w *world) unlessFollowed(ctx context.Context, i int, subscribe func() (int, uint64, error)) {
	memory := fmt.Sprint("subscribed", i)
	var done bool
	for !recall(memory, &done) {
		status, seq, err := subscribe()
		switch {
		case err == nil:
			w.write(plan.Event{Kind: plan.Hooked, Who: i, Query: w.Followers[i].Query, Seq: seq})
			if err := keep(memory, true); err != nil {
				w.write(plan.Event{Kind: plan.Problem, Who: i, Text: err.Error()})
			}
			return
		case refused(status, err):
			w.write(plan.Event{Kind: plan.Problem, Who: i, Text: err.Error()})
			return
		}
		if !w.until(ctx, w.now()+pauseOfHolders) {
			return
		}
	}
}
