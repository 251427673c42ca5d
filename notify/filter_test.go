package notify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
)

// people is a result with two variables.
func people(pairs ...string) *diff.Result {
	b := diff.NewBuilder(diff.Select, diff.Options{})
	must(b.SetVars([]string{"name", "age"}))
	for i := 0; i < len(pairs); i += 2 {
		must(b.Row(diff.Term{Kind: diff.Literal, Value: pairs[i]}, diff.Term{Kind: diff.Literal, Value: pairs[i+1],
			Datatype: "http://www.w3.org/2001/XMLSchema#integer"}))
	}
	return finish(b)
}

func TestThresholds(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	for name, filter := range map[string]string{"rows": `{"min_rows":3}`, "jaccard": `{"min_jaccard":0.75}`} {
		t.Run(name, func(t *testing.T) {
			st, _, _ := r.log.Current(id, false)
			r.record(id, rows("a"))
			p := r.hello()
			p.follow("x", "q", `,"filter":`+filter)
			p.expect("snapshot")
			r.record(id, rows("a", "b"))      // 1 row, distance 1/2
			r.record(id, rows("a", "b", "c")) // 2 rows, 2/3
			p.send(`{"type":"ping"}`)
			p.expect("pong")
			r.record(id, rows("a", "b", "c", "d")) // 3 rows, 3/4: the net change passes
			m := p.expect("delta")
			if m.Prev+3 != m.Seq || !m.Filtered || m.Hash != "" || *m.Jaccard != 0.75 {
				t.Errorf("after %s: %s", st.Position, m.raw)
			}
			r.record(id, rows("a"))
			p.expect("delta")
		})
	}
}

// A filter is stored, so its size is limited more strictly than that of a message.
func TestFilterSize(t *testing.T) {
	r := newRig(t, nil)
	r.log.Add("q", "SELECT", false)
	p := r.hello()
	filter := func(size int) string {
		return `,"filter":{"where":[{"var":"s","op":"=","value":"` + strings.Repeat("x", size) + `"}]}`
	}
	p.follow("small", "q", filter(10<<10))
	p.send(`{"type":"subscribe","id":"large","query":"q"` + filter(20<<10) + `}`)
	if m := p.expect("error"); m.Code != "bad_params" || m.ID != "large" {
		t.Errorf("%s", m.raw)
	}
}

func TestRowFilters(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Timing.Ping = 50 * time.Millisecond })
	id := r.log.Add("q", "SELECT", false)
	r.record(id, people("ann", "9", "bob", "40", "cyd", "40"))
	p := r.hello()
	p.follow("x", "q", `,"filter":{"vars":["age"],"where":[{"var":"age","op":">=","value":10}]}`)
	forty := `{"age":{"type":"literal","value":"40","datatype":"http://www.w3.org/2001/XMLSchema#integer"}}`
	doc := func(rows string) string {
		return `{"head":{"vars":["age"]},"results":{"bindings":[` + rows + `]}}`
	}
	if m := p.expect("snapshot"); string(m.Results) != doc(forty+","+forty) || !m.Filtered {
		t.Errorf("snapshot: %s", m.raw)
	}
	r.record(id, people("ann", "8", "bob", "40", "dan", "40")) // same ages above 9
	m := p.expect("alive")
	for m.Seq == 1 {
		m = p.expect("alive")
	}
	if m.Seq != 2 {
		t.Errorf("alive: %s, want to be moved past what does not concern", m.raw)
	}
	r.record(id, people("ann", "8", "bob", "40"))
	if m := p.skipAlive(); m.Type != "delta" || m.Prev != 2 || m.Seq != 3 || string(m.Added) != doc("") || string(m.Removed) != doc(forty) {
		t.Errorf("delta: %s", m.raw)
	}
}

func TestOperators(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	r.record(id, people("ann", "9", "bob", "40"))
	for i, c := range []struct {
		cond string
		want int
	}{
		{`"name","op":"=","value":"ann"`, 1}, {`"name","op":"!=","value":"ann"`, 1}, {`"name","op":"contains","value":"n"`, 1},
		{`"name","op":"starts","value":"b"`, 1}, {`"age","op":"<","value":10}, {"var":"age","op":">","value":"8.5"`, 1},
		{`"age","op":"<=","value":40`, 2}, {`"age","op":"=","value":9.0`, 1}, {`"missing","op":"!=","value":"x"`, 0},
	} {
		p := r.hello()
		p.follow(fmt.Sprint("s", i), "q", `,"filter":{"where":[{"var":`+c.cond+`}]}`)
		m := p.expect("snapshot")
		_, rows, err := diff.ParseRowsJSON(diff.Select, m.Results)
		if err != nil || len(rows) != c.want {
			t.Errorf("%s: %d rows, want %d (%v)", c.cond, len(rows), c.want, err)
		}
	}
}
