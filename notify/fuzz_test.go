package notify_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/notify"
)

// FuzzMessages sends arbitrary messages after init. The server answers or closes with
// a documented code, and continues to serve others.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		`{"type":"subscribe","id":"a","query":"q","resume":{"epoch":"e","seq":1},"rate":"1s","filter":{"min_rows":1}}`,
		`{"type":"subscribe","id":"a","query":{"endpoint":"test","sparql":"SELECT *"}}`,
		`{"type":"unsubscribe","id":"a"}`, `{"type":"ack","id":"a","seq":18446744073709551615}`, `{"type":"ack","id":"a","seq":1e9}`,
		`{"type":"ping","payload":{"a":[1,null,"\u0000"]}}`, `{"type":"init"}`, `{"type":null}`, `null`, `7`, `"x"`, ``, `{`, "\xff",
		"{\"type\":\"ping\",\"payload\":\"\x80\"}",
		`{"type":"subscribe","id":"a","query":"q","filter":{"where":[{"var":"s","op":"=","value":{}}]}}`,
		`{"type":"subscribe","id":"a","query":"q","filter":{"vars":["s"],"where":[{"var":"s","op":"<","value":1e308}]}}`,
		`{"type":"subscribe","id":"a","query":"q","rate":"9999999h"}`, `{"TYPE":"ping","Type":"pong","type":"ping"}`,
		strings.Repeat("[", 20_000), `{"type":"` + strings.Repeat("x", 5000) + `"}`,
	} {
		f.Add([]byte(seed), true)
	}
	r := newRig(f, func(o *notify.Options) { o.Timing.Close = 50 * time.Millisecond })
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	f.Fuzz(func(t *testing.T, message []byte, text bool) {
		own := *r
		own.t = t
		p := own.hello()
		defer p.conn.Close()
		kind := websocket.BinaryMessage
		if text {
			kind = websocket.TextMessage
		}
		p.conn.WriteMessage(kind, message)
		p.conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"ping","payload":"end of fuzz"}`))
		for {
			m, err := p.next()
			if code, ok := err.(*websocket.CloseError); ok {
				if !slices.Contains([]int{4400, 4409, 4429, 1003, 1007, 1009}, code.Code) {
					t.Fatalf("closed with %d", code.Code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.Type == "pong" && string(m.Payload) == `"end of fuzz"` {
				return
			}
		}
	})
}
