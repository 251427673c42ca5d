package notify_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/live"
)

// crowdEnv makes the test binary run as clients, see crowdMain.
const crowdEnv = "FRESHET_TEST_CROWD"

// crowdMain opens connections that each follow one of the queries in turn, or
// all of them. It prints a line when they are open, whenever each has as many more
// deltas as it follows queries, and when one is lost. Clients are in a process of
// their own, so that their memory and their work are not the server's.
func crowdMain(spec string) {
	var url, list string
	var n, each int
	fmt.Sscan(spec, &n, &each, &url, &list)
	queries := strings.Split(list, ",")
	var got atomic.Int64
	var dialing sync.WaitGroup
	places := make(chan struct{}, 16)
	for i := range n {
		places <- struct{}{}
		dialing.Go(func() {
			conn := crowdDial(url, queries[i%len(queries):][:each])
			go crowdRead(conn, &got, int64(n*each))
			<-places
		})
	}
	dialing.Wait()
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
}

func crowdDial(url string, queries []string) *websocket.Conn {
	dialer := websocket.Dialer{Subprotocols: []string{live.Subprotocol}, ReadBufferSize: 1024, WriteBufferSize: 512}
	conn, _, err := dialer.Dial(url, nil)
	must(err)
	must(conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"init"}`)))
	for i, q := range queries {
		must(conn.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"type":"subscribe","id":"%d","query":%q}`, i, q)))
		for m := []byte(nil); !strings.HasPrefix(string(m), `{"type":"snapshot"`); {
			_, m, err = conn.ReadMessage()
			must(err)
		}
	}
	return conn
}

func crowdRead(conn *websocket.Conn, got *atomic.Int64, all int64) {
	for {
		_, m, err := conn.ReadMessage()
		if err != nil {
			fmt.Println("lost:", err)
			return
		}
		if strings.HasPrefix(string(m), `{"type":"delta"`) && got.Add(1)%all == 0 {
			fmt.Println("all")
		}
	}
}

// crowd starts n clients that follow so many queries each. The returned function
// waits until all of them have the next changes.
func (r *rig) crowd(b *testing.B, n, each int, queries []string) (all func()) {
	b.Helper()
	allowFiles(b, n+1000)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %s %s", crowdEnv, n, each, "ws"+strings.TrimPrefix(r.http.URL, "http")+
		"/v1/live", strings.Join(queries, ",")))
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
		if text := lines.Text(); strings.HasPrefix(text, "lost") {
			b.Fatal("a client has gone: ", text)
		}
	}
	wait()
	return wait
}

// allowFiles skips a benchmark that needs more files than this process may open.
// The runtime has raised the soft limit to the hard one.
func allowFiles(b *testing.B, n int) {
	b.Helper()
	var limit syscall.Rlimit
	must(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if limit.Cur < uint64(n) {
		b.Skipf("needs %d open files, %d are allowed", n, limit.Cur)
	}
}

// BenchmarkIdle measures the memory of an idle connection with one subscription in
// the server: heap and stacks as the runtime counts them, and the growth of the
// process. Socket buffers of the kernel are not included.
func BenchmarkIdle(b *testing.B) {
	for _, connections := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			r := newRig(b, nil)
			id := r.log.Add("idle", diff.Select, false)
			r.record(id, rows("a"))
			goroutines := runtime.NumGoroutine()
			heap, stacks, rss := memory()
			r.crowd(b, connections, 1, []string{id})
			r.eventually("the handshakes end", func() bool { return runtime.NumGoroutine() <= goroutines+2*connections })
			heap2, stacks2, rss2 := memory()
			for b.Loop() { // the figures do not depend on time, and a second crowd needs as many files again
			}
			n := float64(connections)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric((heap2-heap)/n, "heap-B/conn")
			b.ReportMetric((stacks2-stacks)/n, "stack-B/conn")
			b.ReportMetric((heap2-heap+stacks2-stacks)/n, "B/conn")
			b.ReportMetric((rss2-rss)/n, "rss-B/conn")
			b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/n, "goroutines/conn")
		})
	}
}

func memory() (heap, stacks, rss float64) {
	for range 5 { // each halves stacks that have grown and are not used
		runtime.GC()
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if stat, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, resident float64
		fmt.Sscan(string(stat), &size, &resident)
		rss = resident * float64(os.Getpagesize())
	}
	return float64(m.HeapAlloc), float64(m.StackInuse), rss
}

// BenchmarkDelivery measures what a delivered message costs the server, from the
// wake-up after the commit to the last client, as a ratio to one bare write(2) of as
// many bytes to the same connections in the same run. Both are processor time of the
// server's process (user and system), with as many concurrent writers as processors.
// The commit is not included. With -cpu 1 there is one writer.
//
// queries=Q/followers=F: Q queries change at once, each of which F connections
// follow. subscriptions=S: one connection follows S queries, all of which change.
func BenchmarkDelivery(b *testing.B) {
	for _, size := range []int{1, 100} {
		for _, followers := range []int{1, 100, 1000, 10_000} {
			queries := max(1, 100/followers)
			b.Run(fmt.Sprintf("rows=%d/queries=%d/followers=%d", size, queries, followers), func(b *testing.B) {
				benchDelivery(b, size, queries, queries*followers, 1)
			})
		}
		b.Run(fmt.Sprintf("rows=%d/queries=1/followers=1", size), func(b *testing.B) { benchDelivery(b, size, 1, 1, 1) })
		b.Run(fmt.Sprintf("rows=%d/subscriptions=100", size), func(b *testing.B) { benchDelivery(b, size, 100, 1, 100) })
	}
}

func benchDelivery(b *testing.B, size, queries, connections, each int) {
	allowFiles(b, connections+1000)
	r := newRig(b, func(o *notify.Options) {
		// A ping in the middle of a bare write would end the connection.
		o.Timing.Ping, o.Timing.Read, o.Timing.Write = time.Hour, 2*time.Hour, 10*time.Minute
	})
	ids := make([]string, queries)
	for i := range ids {
		ids[i] = r.log.Add(fmt.Sprint("busy", i), diff.Select, false)
	}
	version := 1000
	change := func() {
		version++
		for _, id := range ids {
			values := make([]string, size)
			for i := range values {
				values[i] = "station " + strconv.Itoa(i) + " has " + strconv.Itoa(version)
			}
			r.log.Record(id, rows(values...), time.Unix(1_790_000_000+int64(version), 0))
		}
	}
	change()
	r.waker.Wake(ids...)
	var mu sync.Mutex
	var sockets []socket
	r.accepted = func(c net.Conn) {
		raw, err := c.(*net.TCPConn).SyscallConn()
		must(err)
		mu.Lock()
		defer mu.Unlock()
		must(raw.Control(func(fd uintptr) { sockets = append(sockets, socket{int(fd), raw}) }))
	}
	all := r.crowd(b, connections, each, ids)
	r.accepted = nil
	frame := r.frame(ids, change)
	all()
	bare := func() {
		var writers sync.WaitGroup
		for part := range slices.Chunk(sockets, (len(sockets)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0)) {
			writers.Go(func() {
				for _, s := range part {
					for range each {
						s.write(frame)
					}
				}
			})
		}
		writers.Wait()
		all()
	}
	deliver := func() {
		r.waker.Wake(ids...)
		all()
	}
	var delivered, written time.Duration
	for b.Loop() {
		change()
		runtime.GC() // what the commit left behind is not the delivery's
		delivered += processorTime(deliver)
		runtime.GC()
		written += processorTime(bare)
	}
	messages := time.Duration(b.N * connections * each)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(len(frame)), "B/message")
	b.ReportMetric(float64(delivered/messages), "cpu-ns/message")
	b.ReportMetric(float64(written/messages), "cpu-ns/write")
	b.ReportMetric(float64(delivered)/float64(written), "ratio")
}

// A socket is the server's end of a bare connection.
type socket struct {
	fd  int
	raw syscall.RawConn // for waiting
}

// write is one write(2), if there is room.
func (s socket) write(p []byte) {
	n, err := syscall.Write(s.fd, p)
	if n == len(p) {
		return
	}
	for p = p[max(n, 0):]; len(p) > 0; p = p[max(n, 0):] {
		if err != nil && err != syscall.EAGAIN {
			panic(err)
		}
		must(s.raw.Write(func(fd uintptr) bool {
			n, err = syscall.Write(int(fd), p)
			return err != syscall.EAGAIN
		}))
	}
}

// frame sends one change to all clients and returns the bytes that one of them
// received.
func (r *rig) frame(ids []string, change func()) []byte {
	p := r.hello()
	defer p.conn.Close()
	p.send(`{"type":"subscribe","id":"0","query":"` + ids[0] + `"}`)
	p.expect("subscribed")
	p.expect("snapshot")
	change()
	r.waker.Wake(ids...)
	m := p.expect("delta").raw
	if len(m) < 126 || len(m) >= 1<<16 {
		r.t.Fatalf("a message of %d bytes has another header", len(m))
	}
	return append(binary.BigEndian.AppendUint16([]byte{0x81, 126}, uint16(len(m))), m...)
}

// processorTime returns the processor time of this process during a function.
func processorTime(do func()) time.Duration {
	spent := func() time.Duration {
		var u syscall.Rusage
		must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := spent()
	do()
	return spent() - before
}

// BenchmarkCoalescing measures the message that a reconnecting client receives after
// several changes of a query, each of which changes one of ten rows in a hundred: the
// size of the net change, and its ratio to the sum of all changes.
func BenchmarkCoalescing(b *testing.B) {
	for _, changes := range []int{2, 17, 64, 500} {
		b.Run(fmt.Sprintf("changes=%d", changes), func(b *testing.B) {
			one, oneBytes := sentAfter(b, changes, 1<<30)
			net, netBytes := sentAfter(b, changes, 1)
			for b.Loop() { // the figures do not depend on time
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(net), "messages")
			b.ReportMetric(float64(one-net)/float64(one), "messages-saved")
			b.ReportMetric(float64(oneBytes-netBytes)/float64(oneBytes), "bytes-saved")
		})
	}
}

// sentAfter returns the number of deltas that a client receives when it resumes after
// so many changes, of which more than fold are folded.
func sentAfter(b *testing.B, changes, fold int) (messages, size int) {
	r := newRig(b, func(o *notify.Options) { o.Limits.Fold = fold })
	id := r.log.Add("stations", diff.Select, false)
	readings := make([]int, 100)
	record := func(version int) uint64 {
		readings[version*7%10] = version
		values := make([]string, len(readings))
		for i, v := range readings {
			values[i] = fmt.Sprintf("station %d has %d", i, v)
		}
		r.record(id, rows(values...))
		st, _, err := r.log.Current(id, false)
		must(err)
		return st.Position.Seq
	}
	record(1)
	st, _, err := r.log.Current(id, false)
	must(err)
	var last uint64
	for i := range changes {
		last = record(i + 2)
	}
	p := r.hello()
	p.send(fmt.Sprintf(`{"type":"subscribe","id":"a","query":%q,"resume":{"epoch":%q,"seq":%d}}`, id, st.Position.Epoch, st.Position.Seq))
	p.expect("subscribed")
	for {
		m := p.expect("delta")
		messages, size = messages+1, size+len(m.raw)
		if m.Seq == last {
			return messages, size
		}
	}
}
