// TestNemesisJudges shows each judge of the nemesis test a right history and wrong ones. A judge that
// finds nothing wrong in any history would make the nemesis worthless.

package trial

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// A told is a made-up history of one query: its changes as a node writes them.
type told struct {
	fact    *fact
	changes []string
	final   []byte
}

// tell makes the history of a query whose result is empty at first and then has one row after another.
func tell(versions int) *told {
	h := &told{fact: &fact{question: question{Name: "q"}, shape: shape{form: "SELECT"}, id: "q_1", epoch: "e"}}
	c := &copyOf{shape: h.fact.shape}
	const head = `{"vars":["n"]}`
	for seq := 1; seq <= versions; seq++ {
		row := fmt.Sprintf(`{"n":{"type":"literal","value":"%d"}}`, seq)
		m := map[string]any{"query": "q_1", "epoch": "e", "prev": seq - 1, "seq": seq, "slot": 10 + seq, "form": "SELECT", "jaccard": nil}
		w := wireChange{}
		removed := ""
		if seq == 1 {
			m["baseline"] = true
		} else {
			m["previous_hash"], m["jaccard"] = fingerprint(c.document()), 1
			removed = fmt.Sprintf(`{"n":{"type":"literal","value":"%d"}}`, seq-1)
		}
		m["added"] = json.RawMessage(`{"head":` + head + `,"results":{"bindings":[` + row + `]}}`)
		m["removed"] = json.RawMessage(`{"head":` + head + `,"results":{"bindings":[` + removed + `]}}`)
		b, _ := json.Marshal(m) // cannot fail
		if err := errors.Join(json.Unmarshal(b, &w), c.apply(&w)); err != nil {
			panic(err) // the test is wrong
		}
		m["hash"] = fingerprint(c.document())
		b, _ = json.Marshal(m)
		h.changes, h.final = append(h.changes, string(b)), c.document()
		rows, _ := h.fact.texts(c.rows)
		h.fact.versions = append(h.fact.versions, edition{rows: rows})
	}
	h.fact.final = uint64(versions)
	return h
}

// transcript returns what a follower has that received changes.
func (h *told) transcript(changes ...string) *transcript {
	s := &transcript{fact: h.fact, by: "follower", known: true, epoch: "e"}
	for _, c := range changes {
		var n notice
		if err := json.Unmarshal([]byte(c), &n); err != nil {
			panic(err) // the test is wrong
		}
		s.change(n, json.RawMessage(c))
	}
	return s
}

// verdict judges what three nodes store and what one follower received.
func (h *told) verdict(log1, log2, received *transcript, final2 []byte) []string {
	j := &judge{spans: []span{{0, math.MaxUint64}}, nets: map[netKey]netChange{}}
	o := ending{fact: h.fact, nodes: []string{"n1", "n2"}, finals: [][]byte{h.final, final2}, logs: []*transcript{log1, log2},
		received: []*transcript{received}}
	_, wrong := o.judge(j)
	return wrong
}

func TestNemesisJudges(t *testing.T) {
	h := tell(4)
	all := h.changes
	as := func(change, old, other string) string {
		if !strings.Contains(change, old) {
			t.Fatalf("%s is not in %s", old, change)
		}
		return strings.Replace(change, old, other, 1)
	}
	reslotted := []string{all[0], all[1], all[2], as(all[3], `"slot":14`, `"slot":11`)}
	without3 := []string{all[0], all[1], all[3]}
	renumbered := []string{all[0], all[1], as(as(all[3], `"prev":3`, `"prev":2`), `"seq":4`, `"seq":3`)}
	falsified := []string{all[0], all[1], strings.ReplaceAll(all[2], `"value":"3"`, `"value":"7"`), all[3]}
	right := func() *transcript { return h.transcript(all...) }
	histories := []toldHistory{
		{"everything as it was", "", h.verdict(right(), right(), right(), h.final)},
		{"a follower lacks a change in the middle", "after position 2", h.verdict(right(), right(), h.transcript(without3...), h.final)},
		{"a follower lacks the last change", "ends at 3 of 4", h.verdict(right(), right(), h.transcript(all[:3]...), h.final)},
		{"a follower got a change that never was", "is not the difference", h.verdict(right(), right(), h.transcript(falsified...), h.final)},
		{"a follower got a change under another number", "is not the difference", h.verdict(right(), right(),
			h.transcript(renumbered...), h.final)},
		{"a follower got a change twice", "came again", h.verdict(right(), right(), h.transcript(append(slices.Clone(all), all[3])...), h.final)},
		{"a node lost a change", "log of n2: ends at 3 of 4", h.verdict(right(), h.transcript(all[:3]...), right(), h.final)},
		{"a node has another change", "log of n2", h.verdict(right(), h.transcript(falsified...), right(), h.final)},
		{"a node has a change from an earlier slot", "after slot 13", h.verdict(right(), h.transcript(reslotted...), right(), h.final)},
		{"a node has another result", "at n2 has another result", h.verdict(right(), right(), right(),
			[]byte(strings.Replace(string(h.final), `"4"`, `"5"`, 1)))},
		{"a node serves a damaged journal", "change 3 of all", failure(sameLog(falsified, all))},
		{"a node serves a journal that has lost entries", "change 3 of all", failure(sameLog(without3, all))},
		{"a node lags", "", failure(sameLog(all[:2], all))},
		{"a node does not say that its journal is damaged", "rebuild",
			unless(asksForRebuild(errors.New("freshet serve ended: exit status 1")), "no word of a rebuild")},
		{"a node says that its journal is damaged", "", unless(asksForRebuild(errors.New("run \"freshet cluster rebuild\"")),
			"no word of a rebuild")},
	}
	for _, x := range slices.Concat(histories, endpointHistories(), callbackHistories(h), callHistories()) {
		said := strings.Join(x.wrong, "\n")
		if (x.complaint == "") != (said == "") || !strings.Contains(said, x.complaint) {
			t.Errorf("%s: the judge says %q, want %q", x.what, said, x.complaint)
		}
	}
}

// A toldHistory is a history and what its judge says.
type toldHistory struct {
	what      string
	complaint string // that is expected; "" for a right history
	wrong     []string
}

func failure(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

func unless(ok bool, complaint string) []string {
	if ok {
		return nil
	}
	return []string{complaint}
}

// endpointHistories are requests at the endpoint, in milliseconds.
func endpointHistories() []toldHistory {
	type request struct {
		node, conn   string
		began, ended int
		denied, left bool
	}
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	asks := func(list ...request) []string {
		l := newAskLog()
		type moment struct {
			at    int
			begin bool
			a     *asked
			r     request
		}
		var moments []moment
		for _, r := range list {
			a := &asked{node: r.node, conn: r.conn, began: at(r.began)}
			moments = append(moments, moment{r.began, true, a, r}, moment{r.ended, false, a, r})
		}
		slices.SortStableFunc(moments, func(x, y moment) int { return x.at - y.at })
		for _, m := range moments {
			if m.begin {
				l.begin(m.a)
				continue
			}
			m.a.ended, m.a.left = at(m.r.ended), m.r.left
			l.end(m.a, m.r.denied)
		}
		return l.wrong
	}
	spends := func(list ...*asked) []string { return overspent(list) }
	run := func(node string, began, ended int) *asked {
		return &asked{node: node, began: at(began), ended: at(ended)}
	}
	trial := func(began, ended int) *asked {
		return &asked{node: "n1", began: at(began), ended: at(ended), trial: true}
	}
	slot := func(n uint64, used, after float64) slotUse {
		s := slotUse{Slot: n, Used: used, Budget: 0.5}
		s.OffGrid.Used = after
		return s
	}
	return []toldHistory{
		{"one node asks after another", "", asks(request{node: "n1", conn: "a", began: 0, ended: 100}, request{node: "n1", conn: "a",
			began: 150, ended: 200}, request{node: "n2", conn: "b", began: 5000, ended: 5100})},
		{"two nodes ask at once", "while a request of n1 runs", asks(request{node: "n1", conn: "a", began: 0, ended: 100},
			request{node: "n2", conn: "b", began: 50, ended: 90})},
		{"a node asks within the gap", "after the end of a request of n1", asks(request{node: "n1", conn: "a", began: 0, ended: 100},
			request{node: "n1", conn: "a", began: 149, ended: 200})},
		{"another node asks within the gap", "after the end of a request of n1",
			asks(request{node: "n1", conn: "a", began: 0, ended: 100}, request{node: "n2", conn: "b", began: 149, ended: 200})},
		{"a node gave up and asks again", "", asks(request{node: "n1", conn: "a", began: 0, ended: 1040}, request{node: "n1", conn: "b",
			began: 1050, ended: 1100})},
		{"a node asks within a Retry-After", "before the end of a Retry-After",
			asks(request{node: "n1", conn: "a", began: 0, ended: 100, denied: true}, request{node: "n1", conn: "a", began: 1000, ended: 1050})},
		{"another node asks within a Retry-After", "before the end of a Retry-After",
			asks(request{node: "n1", conn: "a", began: 0, ended: 100, denied: true}, request{node: "n2", conn: "b", began: 1000, ended: 1050})},
		{"a node asks after a Retry-After", "", asks(request{node: "n1", conn: "a", began: 0, ended: 100, denied: true},
			request{node: "n1", conn: "a", began: 1101, ended: 1150})},
		{"a slot keeps its budget", "", spends(run("n1", 0, 250), run("n1", 300, 550), run("n1", 1000, 1250))},
		{"a slot takes more than its budget", "the slot at", spends(run("n1", 0, 250), run("n1", 300, 550), run("n1", 600, 850),
			run("n1", 900, 950))},
		{"a takeover takes the budget again", "requests map[n1:2 n2:2]", spends(run("n1", 0, 240), run("n1", 300, 540),
			run("n2", 600, 840), run("n2", 850, 999))},
		{"trial runs are charged to the next slot", "", spends(run("n1", 0, 250), trial(300, 550), run("n1", 1000, 1200))},
		{"trial runs are charged to no slot", "above their budgets", spends(run("n1", 0, 250), run("n1", 300, 500), trial(600, 900),
			run("n1", 1000, 1250), run("n1", 1300, 1500), trial(1600, 1900),
			run("n1", 2000, 2250), run("n1", 2300, 2500), trial(2600, 2900), run("n1", 3000, 3250), run("n1", 3300, 3500), trial(3600, 3900))},
		{"recorded slots keep their budgets", "", slotsKept([]slotUse{slot(3, 0.2, 0.3), slot(2, 0.5, 0), slot(1, 0.1, 0)})},
		{"a recorded slot is above its budget", "slot 2 used 0.6 s", slotsKept([]slotUse{slot(3, 0.2, 0), slot(2, 0.6, 0)})},
		{"what hints caused is above the budget", "slot 2 used 0.4 s and 0.2 s after it", slotsKept([]slotUse{slot(2, 0.4, 0.2)})},
		{"a slot number was given twice", "slot 2 is listed after slot 2", slotsKept([]slotUse{slot(2, 0.4, 0), slot(2, 0.1, 0)})},
	}
}

// callbackHistories are what a webhook, a subscriber of the hub, a SEPA client and a feed reader got.
func callbackHistories(h *told) []toldHistory {
	hook := func(messages ...string) []string {
		x := &judgingHook{bodies: map[string]string{}}
		for _, m := range messages {
			id, body, _ := strings.Cut(m, " ")
			x.receive(id, body)
		}
		return x.wrong
	}
	first := `1 {"type":"query.snapshot","data":{"seq":1}}`
	second := `2 {"type":"query.changed","data":{"prev":1,"seq":2}}`
	contents := []string{}
	hashes := map[uint64]string{}
	for seq := range h.fact.versions {
		b := []byte(fmt.Sprintf(`{"head":{"vars":["n"]},"results":{"bindings":[{"n":{"type":"literal","value":"%d"}}]}}`, seq+1))
		contents = append(contents, string(b))
		hashes[uint64(seq)+1] = fingerprint(b)
	}
	topic := func(got ...string) []string { // by n1, unless another node is named
		var list []hubDelivery
		for _, d := range got {
			node, body, other := strings.Cut(d, " sends ")
			if !other {
				node, body = "n1", d
			}
			list = append(list, hubDelivery{node, body})
		}
		_, late, err := judgeTopic(list, hashes, h.fact.final)
		return append(failure(err), unless(late == 0, fmt.Sprint("late: ", late))...)
	}
	row := func(n int) []string { return []string{fmt.Sprintf(`{"n":{"type":"literal","value":"%d"}}`, n)} }
	sepa := func(notes ...sepaNote) []string {
		_, wrong := (&sepaFollower{fact: h.fact, notes: [][]sepaNote{notes}}).judge()
		return wrong
	}
	feed := func(entries ...string) []string {
		s := h.transcript()
		for _, raw := range entries {
			e := payload{raw: []byte(raw)}
			if err := json.Unmarshal(e.raw, &e); err != nil {
				return failure(err)
			}
			if !takeEntry(map[string]*transcript{h.fact.id: s}, &e) {
				s.object("it is not known")
			}
		}
		return h.verdict(h.transcript(h.changes...), h.transcript(h.changes...), s, h.final)
	}
	other := strings.Replace(h.changes[1], `"slot":12`, `"slot":13`, 1)
	return []toldHistory{
		{"a webhook gets all", "", hook(first, second)},
		{"a webhook gets a message again", "", hook(first, second, second)},
		{"a webhook gets a change twice in effect", "after position 2", hook(first, second, strings.Replace(second, "2 ", "3 ", 1))},
		{"a webhook lacks a change", "after position 1", hook(first, `3 {"type":"query.changed","data":{"prev":2,"seq":3}}`)},
		{"a webhook gets other content under one id", "another content", hook(first, second, strings.Replace(second, `"seq":2`, `"seq":3`, 1))},
		{"a subscriber gets versions in order", "", topic(contents[0], contents[1], contents[1], contents[3])},
		{"a subscriber gets an older version", "is version 1, after version 2", topic(contents[1], contents[0], contents[3])},
		{"a subscriber gets an older version of another node", "late: 1", topic(contents[1], "n2 sends "+contents[0], contents[3])},
		{"a subscriber gets what never was", "is no version", topic(contents[0], "{}", contents[3])},
		{"a subscriber lacks the newest version", "the last delivery is not version 4, but version 3 came", topic(contents[0], contents[2])},
		{"a topic does not change", "", func() []string { _, _, err := judgeTopic(nil, hashes, 1); return failure(err) }()},
		{"a topic changes and a subscriber gets nothing", "the last delivery is not version 2",
			func() []string { _, _, err := judgeTopic(nil, hashes, 2); return failure(err) }()},
		{"a SEPA client gets all", "", sepa(sepaNote{0, row(2), nil}, sepaNote{1, row(3), row(2)}, sepaNote{2, row(4), row(3)})},
		{"a SEPA client gets folded changes", "", sepa(sepaNote{0, row(1), nil}, sepaNote{1, row(4), row(1)})},
		{"a SEPA client gets a row that never was", "(0: none)", sepa(sepaNote{0, row(2), nil}, sepaNote{1, row(9), row(2)})},
		{"a SEPA client lacks a notification", "in the place of 1", sepa(sepaNote{0, row(2), nil}, sepaNote{2, row(4), row(2)})},
		{"a SEPA client is told to remove what it lacks", "removes", sepa(sepaNote{0, row(2), nil}, sepaNote{1, row(4), row(3)})},
		{"a SEPA client goes back", "leads from version 3 to 2", sepa(sepaNote{0, row(3), nil}, sepaNote{1, row(2), row(3)})},
		{"a SEPA client ends too early", "ends at 3 of 4", sepa(sepaNote{0, row(3), nil})},
		{"a feed shows all, and entries again", "", feed(slices.Concat(h.changes[:2], h.changes)...)},
		{"a feed lacks an entry", "after position 1", feed(h.changes[0], h.changes[2])},
		{"an entry of a feed changes", "the change 2 was", feed(h.changes[0], h.changes[1], other)},
	}
}

// callHistories are answers to calls of the API.
func callHistories() []toldHistory {
	answer := func(c nodeCall, status int, retry, body string) []string {
		header := http.Header{}
		if retry != "" {
			header.Set("Retry-After", retry)
		}
		done, err := c.judgeAnswer(status, header, []byte(body))
		if done && err != nil {
			return []string{"both"}
		}
		return failure(err)
	}
	explain := nodeCall{judge: func(b []byte) error { return judgeExplain(b, "q_1", 7) }}
	trial := nodeCall{refusals: []int{429}, judge: func(b []byte) error { return judgeTrial(b, "text") }}
	hint := nodeCall{judge: func(b []byte) error { return judgeHint(b, 2, 5) }}
	slots := nodeCall{judge: judgeSlots}
	const (
		refused = `{"type":"/problems/unavailable"}`
		found   = `{"query":"q_1","endpoint":"truth","policy":"rr","slot":9,"last_run":{"slot":8}}`
		ran     = `{"endpoint":"truth","run":{"outcome":"complete","rows":1,` +
			`"results":{"results":{"bindings":[{"x":{"type":"literal","value":"text"}}]}}}}`
	)
	return []toldHistory{
		{"an explanation", "", answer(explain, 200, "", found)},
		{"the owner is not known", "", answer(explain, 503, "1", refused)},
		{"a refusal without Retry-After", "status 503", answer(explain, 503, "", refused)},
		{"an unknown query", "status 404", answer(explain, 404, "", refused)},
		{"an error", "status 500", answer(explain, 500, "1", refused)},
		{"an explanation of another query", "about the query q_2", answer(explain, 200, "", strings.Replace(found, "q_1", "q_2", 1))},
		{"an explanation by a node that is no owner any more", "the last run is of slot 6",
			answer(explain, 200, "", strings.Replace(found, `"slot":8`, `"slot":6`, 1))},
		{"an explanation while the order is being made", "", answer(explain, 200, "", strings.Replace(found, `"last_run":{"slot":8}`,
			`"code":"planning","last_run":null`, 1))},
		{"a trial run", "", answer(trial, 200, "", ran)},
		{"a trial run that was cut", "", answer(trial, 200, "", `{"endpoint":"truth","run":{"outcome":"cut"}}`)},
		{"a trial run above the budget", "", answer(trial, 429, "", refused)},
		{"a trial run of another question", "other rows", answer(trial, 200, "", strings.Replace(ran, "text", "other", 1))},
		{"a trial run that did not run", "did not run", answer(trial, 200, "", `{"endpoint":"truth"}`)},
		{"a hint", "", answer(hint, 202, "", `{"affected":2,"queries":5}`)},
		{"a hint at a node that knows no queries", "0 of 0", answer(hint, 202, "", `{"affected":0,"queries":0}`)},
		{"slots", "", answer(slots, 200, "", `{"slots":[{"slot":2,"used_seconds":0.4,"budget_seconds":0.5},{"slot":1,`+
			`"used_seconds":0.4,"budget_seconds":0.5}]}`)},
		{"a slot above its budget", "slot 2 used 0.7", answer(slots, 200, "", `{"slots":[{"slot":2,"used_seconds":0.7,"budget_seconds":0.5}]}`)},
	}
}

// The partitions have every shape, up to the names of the nodes, and each holds bytes only on its links.
func TestNemesisPartitions(t *testing.T) {
	shapes := map[string]bool{}
	for _, f := range nemesisFaults {
		if f.cuts == nil {
			continue
		}
		links := f.cuts("a", "b", "c")
		text := []string{}
		for _, l := range links {
			text = append(text, l.from+l.to)
		}
		slices.Sort(text)
		shapes[strings.Join(text, " ")] = true
	}
	for _, want := range []string{"ab ac ba ca", "ab ac", "ba ca", "ab ba", "ab", "ab ac ba bc ca cb"} {
		if !shapes[want] {
			t.Errorf("no fault cuts exactly %s: %v", want, shapes)
		}
	}
	n := newLinks(t)
	for _, greeting := range []string{"{\"server_name\":\"b\"}", "POST / HTTP/1.1\r\nFreshet-Node: b\r\n\r\n"} {
		there, back := pipeThrough(t, n, "a", greeting)
		for _, links := range [][]link{{{"b", "a"}}, {{"a", "b"}}, {{"a", "b"}, {"b", "a"}}, {{"b", "c"}, {"c", "b"}, {"a", "c"}, {"c", "a"}}} {
			heal := n.hold(links...)
			for _, x := range []struct {
				l        link
				from, to net.Conn
			}{{link{"b", "a"}, there, back}, {link{"a", "b"}, back, there}} {
				cut := slices.Contains(links, x.l)
				held := n.count(" held")
				got := make(chan error, 1)
				go func() {
					_, err := x.to.Read(make([]byte, 1))
					got <- err
				}()
				if _, err := x.from.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
				if cut {
					for n.count(" held") == held { // the proxy has the byte
						time.Sleep(time.Millisecond)
					}
					select {
					case err := <-got:
						t.Errorf("%v: a byte passes %v: %v", links, x.l, err)
					default:
					}
					heal()
					heal = n.hold(slices.DeleteFunc(slices.Clone(links), func(l link) bool { return l == x.l })...)
				}
				if err := <-got; err != nil {
					t.Errorf("%v: no byte passes %v: %v", links, x.l, err)
				}
			}
			heal()
		}
	}
}

// pipeThrough returns both ends of a connection through the proxy of a node.
func pipeThrough(t *testing.T, n *linkSet, node, greeting string) (there, back net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	there, err = net.Dial("tcp", n.proxy("test", node, l.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	back, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { there.Close(); back.Close() })
	if _, err := there.Write([]byte(greeting)); err != nil {
		t.Fatal(err)
	}
	for rest := len(greeting); rest > 0; {
		k, err := back.Read(make([]byte, rest))
		if err != nil {
			t.Fatal(err)
		}
		rest -= k
	}
	return there, back
}
