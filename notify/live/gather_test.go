package live

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/notify"
)

// gather returns a gathering over a pipe, and the client's end of the pipe.
func gather(t *testing.T) (*gathering, net.Conn) {
	server, client := net.Pipe()
	t.Cleanup(func() { server.Close(); client.Close() })
	timing := &notify.Timing{Write: time.Minute}
	return &gathering{wire: newWire(server, timing, func() {}), ctx: t.Context(),
		pool: &sync.Pool{New: func() any { return new([]byte) }}, fail: func(error) {}}, client
}

// payload reads one frame.
func payload(t *testing.T, in *bufio.Reader) []byte {
	t.Helper()
	head := make([]byte, 2)
	_, err := io.ReadFull(in, head)
	n := uint64(head[1])
	if wide := map[byte]int{126: 2, 127: 8}[head[1]]; err == nil && wide > 0 {
		size := make([]byte, 8)
		_, err = io.ReadFull(in, size[8-wide:])
		n = binary.BigEndian.Uint64(size)
	}
	if err != nil || head[0] != 0x81 || n > 1<<20 {
		t.Fatalf("a frame of %d bytes begins with %x, %v", n, head, err)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(in, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// Frames that are added while a document is written come before or after its message.
func TestDocumentIsOneFrame(t *testing.T) {
	g, client := gather(t)
	const adders, each = 8, 3000
	large := []byte(strings.Repeat("d", 100))
	documents := notify.NewDocuments()
	open := func() *notify.Document {
		doc, _, err := documents.Open("test", "large", func(w io.Writer) (any, error) { return w.Write(large) })
		if err != nil {
			t.Error(err)
		}
		return doc
	}
	for i := range adders {
		go func() {
			for range each {
				g.Enter()
				if i%2 == 0 {
					g.add([]byte("{small"), []byte("}"))
				} else {
					g.document([]byte("{"), open(), endOfMessage, nil)
				}
				g.Leave()
			}
		}()
	}
	in := bufio.NewReader(client)
	for range adders * each {
		if b := payload(t, in); string(b) != "{small}" && (len(b) != 102 || !bytes.Equal(b[1:101], large)) {
			t.Fatalf("a message is %s", b)
		}
	}
}
