package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
	"github.com/freshet/freshet/notify/client"
)

// follow is follower number i, which keeps what it knows from one life to the next.
func (w *world) follow(ctx context.Context, i int) {
	f := w.Followers[i]
	if !w.until(ctx, f.From) {
		return
	}
	switch f.Way {
	case plan.Webhook:
		w.addWebhook(ctx, i)
		return
	case plan.People, plan.Mail:
		w.addPeople(ctx, i)
		return
	case plan.WebSub:
		w.subscribe(ctx, i)
		return
	case plan.SEPA:
		w.present(ctx, i, w.followSEPA)
	case plan.SSE:
		w.present(ctx, i, w.followSSE)
	default:
		w.present(ctx, i, w.followWebSocket)
	}
}

// present calls connect again and again while the follower is not away.
func (w *world) present(ctx context.Context, i int, connect func(context.Context, int) error) {
	for ctx.Err() == nil {
		here, leave := context.WithCancel(ctx)
		for _, away := range w.Followers[i].Away {
			switch now := w.now(); {
			case away.Holds(now):
				if !w.until(ctx, away.Until) {
					leave()
					return
				}
			case away.From > now:
				time.AfterFunc(away.From-now, leave)
			}
		}
		if err := connect(here, i); err != nil && here.Err() == nil {
			w.turn.Add(1)
			w.until(ctx, w.now()+time.Second)
		}
		leave()
	}
}

// notes is the file in which a follower, by its number, or something else keeps what it knows.
func notes(key any) string { return fmt.Sprintf("%s/%v.json", state, key) }

func recall(key, v any) bool {
	b, err := os.ReadFile(notes(key))
	return err == nil && json.Unmarshal(b, v) == nil
}

func keep(key, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(notes(key), b, 0o644)
}

func (w *world) followWebSocket(ctx context.Context, i int) error {
	f := w.Followers[i]
	o := client.Options{Server: "http://" + w.server(), Query: name(f.Query), Token: w.viewer()}
	var from client.State
	if recall(i, &from) {
		o.From = &from
	}
	return client.Follow(ctx, o, func(e client.Event) error {
		x := plan.Event{Who: i, Query: f.Query, Prev: e.Prev, Seq: e.State.Seq, Epoch: e.State.Epoch}
		switch e.Kind {
		case client.Subscribed:
			x.Kind, x.Text = plan.Subscribed, e.Reason
		case client.Snapshot:
			x.Kind = plan.Snapshot
		case client.Delta:
			x.Kind = plan.Delta
		case client.Alive:
			x.Kind = plan.Moved
		default:
			return nil
		}
		if e.Result != nil && e.Kind != client.Subscribed {
			var d document
			if err := json.Unmarshal(e.State.Document, &d); err != nil {
				return err
			}
			x.Rows = [][]int{d.rows()}
		}
		w.write(x)
		if e.Result == nil {
			return nil
		}
		return keep(i, e.State)
	})
}

// A position is what a follower over SSE or a webhook knows.
type position struct {
	ID   string `json:"id"`
	Seq  uint64 `json:"seq"`
	Rows []int  `json:"rows"`
	At   time.Duration
}

func (w *world) followSSE(ctx context.Context, i int) error {
	f := w.Followers[i]
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.server()+"/v1/queries/"+name(f.Query)+"/changes", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/event-stream")
	w.sign(r, viewerToken)
	var at position
	if recall(i, &at) {
		r.Header.Set("Last-Event-ID", at.ID)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	kind, id := "", ""
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
		case "event":
			kind = value
		case "id":
			id = value
		case "data":
			if err := w.received(i, &at, kind, id, value); err != nil {
				return err
			}
		}
	}
	return errors.Join(lines.Err(), errors.New("the stream ended"))
}

// received handles an event of a stream, or a message of a webhook.
func (w *world) received(i int, at *position, kind, id, data string) error {
	var c change
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		w.write(plan.Event{Kind: plan.Problem, Who: i, Text: err.Error() + ": " + data})
		return err
	}
	x := plan.Event{Who: i, Query: w.Followers[i].Query, Prev: c.Prev, Seq: c.Seq, Epoch: c.Epoch, Text: c.Reason}
	switch kind {
	case "snapshot", "query.snapshot":
		x.Kind, at.Rows = plan.Snapshot, c.Results.rows()
	case "change", "query.changed":
		x.Kind, at.Rows = plan.Delta, c.apply(at.Rows)
	case "gap":
		x.Kind = plan.Subscribed
		w.write(x)
		return nil
	case "alive", "query.moved":
		x.Kind = plan.Moved
	default:
		return nil
	}
	if x.Kind != plan.Moved {
		x.Rows = [][]int{at.Rows}
	}
	at.ID, at.Seq = id, c.Seq
	w.write(x)
	return keep(i, at)
}

// addWebhook registers the webhook of follower i unless it has been.
func (w *world) addWebhook(ctx context.Context, i int) {
	target := fmt.Sprintf("http://%s/webhook/%d", receiverAddress, i)
	for {
		var list struct {
			Webhooks []struct {
				Name string `json:"name"`
			} `json:"webhooks"`
		}
		_, err := w.call(ctx, http.MethodGet, "/v1/webhooks", nil, &list)
		if err == nil {
			for _, h := range list.Webhooks {
				if h.Name == fmt.Sprint("hook", i) {
					return
				}
			}
			var status int
			status, err = w.call(ctx, http.MethodPost, "/v1/webhooks", map[string]any{"url": target, "query": name(w.Followers[i].Query),
				"name": fmt.Sprint("hook", i)}, nil)
			if err == nil {
				w.write(plan.Event{Kind: plan.Hooked, Who: i})
			}
			if refused(status, err) {
				w.write(plan.Event{Kind: plan.Problem, Who: i, Text: err.Error()})
				return
			}
		}
		if err == nil || !w.until(ctx, w.now()+2*time.Second) {
			return
		}
	}
}
