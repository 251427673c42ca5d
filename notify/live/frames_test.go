package live

import (
	"math/rand/v2"
	"testing"

	"github.com/gorilla/websocket"
)

// Frames are found however the input is split.
func TestFramesAreCounted(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		var sent []byte
		want := 0
		for range 30 {
			kind := []byte{websocket.TextMessage, 0, websocket.PingMessage, websocket.PongMessage}[random.IntN(4)]
			size := []int{0, 5, 125, 126, 300, 70_000}[random.IntN(6)]
			if kind >= 8 {
				size = min(size, 125)
			}
			if kind >= 8 || kind == 0 && size < littleContinuation {
				want++
			}
			head := appendHeader(nil, kind, size)
			head[1] |= 0x80
			sent = append(append(sent, head...), "mask"...)
			for range size {
				sent = append(sent, byte(random.Uint32()))
			}
		}
		var f frames
		got := 0
		for rest := sent; len(rest) > 0; {
			n := min(1+random.IntN(400), len(rest))
			got += f.count(rest[:n])
			rest = rest[n:]
		}
		if got != want {
			t.Fatalf("%d frames of %d are counted", got, want)
		}
	}
}
