package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fill sets every field, so that the test notices a new field that the file does not store.
func fill(v reflect.Value, n *int) {
	*n++
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(start.Add(time.Duration(*n) * time.Nanosecond)))
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes(fmt.Appendf(nil, `{"n":%d}`, *n))
	case v.Type() == reflect.TypeFor[registry.Span](): // either a time or slots
		v.Set(reflect.ValueOf(registry.Span{Slots: uint64(*n)}))
		if *n%2 == 0 {
			v.Set(reflect.ValueOf(registry.Span{Time: time.Duration(*n) * time.Second}))
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		fallthrough
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case v.Kind() == reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case v.Type() == reflect.TypeFor[any]():
		v.Set(reflect.ValueOf(fmt.Sprint("text ", *n)))
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(int64(*n) * 1_000_003)
	case v.CanUint():
		v.SetUint(uint64(*n) * 1_000_003)
	case v.CanFloat():
		v.SetFloat(float64(*n) / 7)
	default:
		panic("a field of a kind that the test does not know: " + v.Type().String())
	}
}

func TestRecordKeepsEveryField(t *testing.T) {
	r := record{serial: 1 << 40, space: 2, seq: 3}
	n := 0
	fill(reflect.ValueOf(&r.stats).Elem(), &n)
	r.stats.Position = registry.Position{}   // is derived from seq and the epoch
	r.stats.Fingerprint = diff.Fingerprint{} // is kept in memory only
	got, err := parseRecord(r.append(nil))
	if err != nil || cmp.Diff(r.stats, got.stats) != "" {
		t.Fatalf("%v %s", err, cmp.Diff(r.stats, got.stats))
	}
	if got.serial != r.serial || got.space != r.space || got.seq != r.seq {
		t.Fatalf("head %+v", got)
	}
	if head := recordHead(r.append(nil)); head.serial != r.serial || head.space != r.space || head.seq != r.seq {
		t.Fatalf("head alone %+v", head)
	}
	for _, hash := range []string{"", "sha256:", "sha256:" + strings.Repeat("ab", 32), "sha256:" + strings.Repeat("AB", 32),
		"md5:00", "sha256:zz"} {
		r.stats.Hash = hash
		if got, err := parseRecord(r.append(nil)); err != nil || got.stats.Hash != hash {
			t.Errorf("hash %q came back as %q, %v", hash, got.stats.Hash, err)
		}
	}
}

// Any statistics can be stored and read unchanged, including unordered slots and negative
// times.
func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sample := rapid.Custom(func(rt *rapid.T) policy.Sample {
			return policy.Sample{
				Slot:    rapid.Uint64Max(1<<61-1).Draw(rt, "slot"),
				Elapsed: time.Duration(rapid.Int64().Draw(rt, "elapsed")),
				Changed: rapid.Bool().Draw(rt, "changed"),
				Jaccard: rapid.SampledFrom([]float64{0, 0.25, 1}).Draw(rt, "jaccard"),
			}
		})
		r := record{stats: policy.Stats{
			Last:    rapid.Uint64().Draw(rt, "last"),
			Hash:    rapid.String().Draw(rt, "hash"),
			Samples: rapid.SliceOfN(sample, 1, 63).Draw(rt, "samples"),
		}}
		b := r.append(nil)
		got, err := parseRecord(b)
		if err != nil || cmp.Diff(r.stats, got.stats) != "" {
			rt.Fatalf("%v %s", err, cmp.Diff(r.stats, got.stats))
		}
		// A damaged record causes an error or gives another record, but never a panic. A truncated
		// record always causes an error.
		cut := rapid.IntRange(0, len(b)-1).Draw(rt, "cut")
		if _, err := parseRecord(b[:cut]); !errors.Is(err, ErrDamaged) {
			rt.Fatalf("cut to %d of %d bytes: %v", cut, len(b), err)
		}
		b[cut] ^= byte(rapid.IntRange(1, 255).Draw(rt, "flip"))
		parseRecord(b)
	})
}

func TestPack(t *testing.T) {
	p, err := newPacker()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	noise := make([]byte, pieceSize/2)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	for _, raw := range []string{"", "x", strings.Repeat("x", minCompressed), strings.Repeat("some rows ", 100_000), string(noise),
		strings.Repeat("x", pieceSize), strings.Repeat("x", pieceSize+1), strings.Repeat("some rows ", pieceSize)} {
		b, err := p.pack([]byte("head"), nil, strings.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if string(b[:4]) != "head" || strings.HasPrefix(raw, "some rows") && len(b) > len(raw)/10 || len(b) > len(raw)+16 {
			t.Errorf("%d bytes were packed into %d", len(raw), len(b))
		}
		got, err := p.unpack(b[4:])
		if err != nil || string(got) != raw || unpackedSize(b[4:]) != len(raw) {
			t.Errorf("%d bytes came back as %d, announced as %d: %v", len(raw), len(got), unpackedSize(b[4:]), err)
		}
		for cut := range min(len(b)-4, 100) {
			if _, err := p.unpack(b[4 : 4+cut]); !errors.Is(err, ErrDamaged) {
				t.Errorf("%d bytes packed, cut to %d: %v", len(raw), cut, err)
			}
		}
	}
	if b, err := p.pack(nil, nil, inBytes("some bytes, each in a piece of its own")); err != nil {
		t.Error(err)
	} else if got, err := p.unpack(b); err != nil || string(got) != "some bytes, each in a piece of its own" {
		t.Errorf("single bytes came back as %q, %v", got, err)
	}
	huge := append(binary.AppendUvarint(nil, maxUnpacked), formZstd)
	if _, err := p.unpack(append(huge, noise[:100]...)); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "cannot unpack") {
		t.Errorf("100 bytes that are said to unpack to %d: %v", maxUnpacked, err)
	}
}

// inBytes writes itself byte by byte.
type inBytes string

func (s inBytes) WriteTo(w io.Writer) (n int64, err error) {
	for i := range s {
		if _, err := io.WriteString(w, string(s[i:i+1])); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Preparing calls stop once for every piece, ends with its first error and leaves nothing in
// the file.
func TestPreparingEnds(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_a", "city")
	values := make([]string, 100_000)
	for i := range values {
		values[i] = fmt.Sprintf("http://example.org/a/long/name/%d", i)
	}
	result := bag(t, values...)
	delta := diff.Compare(nil, result)
	over := errors.New("over")
	for last := 1; ; last++ {
		asked := 0
		p, err := d.Ledger.Prepare(func() error {
			if asked++; asked < last {
				return nil
			}
			return over
		}, result, delta)
		if err == nil {
			if least := 2 * result.Size() / pieceSize; last-1 < least || last-1 > 2*least {
				t.Errorf("preparing %d bytes twice asks %d times, want one for each MiB", result.Size(), last-1)
			}
			if p == nil {
				t.Error("nothing was prepared")
			}
			break
		}
		if !errors.Is(err, over) || asked != last || p != nil {
			t.Fatalf("told to end at question %d: %v after %d, %v", last, err, asked, p)
		}
	}
	if r, err := d.Ledger.Result("q_a"); r != nil || err != nil {
		t.Errorf("preparing wrote %v, %v", r, err)
	}
}
