package notify_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
)

// crowdEnv makes the test binary a crowd of clients instead, see crowdMain.
const crowdEnv = "FRESHET_TEST_CROWD"

// crowdMain follows a query with many connections, says so, and prints a dot
// for each message until its input ends. Clients live in a process of their
// own, so that their memory and their work are not the server's.
func crowdMain(spec string) {
	var url, query string
	var n int
	fmt.Sscan(spec, &n, &url, &query)
	var got atomic.Int64
	dialer := websocket.Dialer{Subprotocols: []string{notify.Subprotocol}, ReadBufferSize: 1024, WriteBufferSize: 512}
	for range n {
		conn, _, err := dialer.Dial(url, nil)
		must(err)
		must(conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"init"}`)))
		must(conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"subscribe","id":"a","query":"`+query+`"}`)))
		for {
			_, m, err := conn.ReadMessage()
			must(err)
			if strings.HasPrefix(string(m), `{"type":"snapshot"`) {
				break
			}
		}
		go func() {
			for {
				if _, m, err := conn.ReadMessage(); err != nil {
					return
				} else if strings.HasPrefix(string(m), `{"type":"delta"`) && got.Add(1)%int64(n) == 0 {
					fmt.Println("all")
				}
			}
		}()
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
}

// crowd starts n clients of a query and returns a function that waits until all
// of them have the next change.
func (r *rig) crowd(b *testing.B, n int, query string) (all func()) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s", crowdEnv, n, "ws"+strings.TrimPrefix(r.http.URL, "http")+"/v1/live", query))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(err)
	out, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	wait := func() {
		if !lines.Scan() {
			b.Fatal("the clients have gone")
		}
	}
	wait()
	return wait
}

// BenchmarkIdle measures the memory, heap and stacks, that a connection takes in
// the server while nothing happens.
func BenchmarkIdle(b *testing.B) {
	const connections = 2000
	memory := func() (heap, stacks float64) {
		for range 4 { // each halves stacks that have grown and are not used
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc), float64(m.StackInuse)
	}
	for b.Loop() {
		r := newRig(b, nil)
		id := r.log.Add("idle", diff.Select, false)
		r.record(id, rows("a"))
		goroutines := runtime.NumGoroutine()
		heap, stacks := memory()
		r.crowd(b, connections, id)
		time.Sleep(100 * time.Millisecond) // what the handshakes left ends
		heap2, stacks2 := memory()
		b.ReportMetric((heap2-heap)/connections, "heap_bytes/connection")
		b.ReportMetric((stacks2-stacks)/connections, "stack_bytes/connection")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/connections, "goroutines/connection")
	}
}

// BenchmarkDelivery is a change on its way from the log to all followers of its
// query, per message, and how many times that is one bare write(2) of the same
// bytes to a TCP connection over loopback.
func BenchmarkDelivery(b *testing.B) {
	for _, followers := range []int{1, 100, 1000} {
		for _, size := range []int{1, 100} {
			b.Run(fmt.Sprintf("followers=%d/rows=%d", followers, size), func(b *testing.B) {
				r := newRig(b, nil)
				id := r.log.Add("busy", diff.Select, false)
				version := 0
				change := func() {
					version++
					values := make([]string, size)
					for i := range values {
						values[i] = "station " + strconv.Itoa(i) + " has " + strconv.Itoa(version)
					}
					r.record(id, rows(values...))
				}
				change()
				all := r.crowd(b, followers, id)
				bare := newBareWriter(b, 600+size*130)
				for b.Loop() {
					change()
					all()
					b.StopTimer()
					bare.write(b, 100)
					b.StartTimer()
				}
				each := b.Elapsed() / time.Duration(b.N*followers)
				b.ReportMetric(float64(each.Nanoseconds()), "ns/message")
				b.ReportMetric(float64(each)/bare.each(), "writes/message")
			})
		}
	}
}

// A bareWriter times write(2) of a number of bytes to a connection that somebody
// reads.
type bareWriter struct {
	conn  net.Conn
	data  []byte
	n     int
	spent time.Duration
}

func newBareWriter(b *testing.B, size int) *bareWriter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	must(err)
	peer, err := l.Accept()
	must(err)
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(io.Discard, peer)
	}()
	b.Cleanup(func() {
		conn.Close()
		<-read
		peer.Close()
	})
	return &bareWriter{conn: conn, data: make([]byte, size)}
}

func (w *bareWriter) write(b *testing.B, times int) {
	began := time.Now()
	for range times {
		if _, err := w.conn.Write(w.data); err != nil {
			b.Fatal(err)
		}
	}
	w.spent += time.Since(began)
	w.n += times
}

func (w *bareWriter) each() float64 { return float64(w.spent) / float64(w.n) }
