package notify

import (
	"crypto/sha256"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/freshet/freshet/notify/loan"
)

// Documents are the bodies of messages, shared by all senders of the same message. A
// sender holds the piece that it writes and, while its reader keeps up, the document.
// While the reader is slow, the sender releases the document and gets it again
// afterwards; a document that was not kept is made again. So stalled readers do not
// keep documents in memory. Methods may be called concurrently.
type Documents struct {
	cache loan.Cache[documentKey, *content]

	mu     sync.Mutex
	places map[string]chan struct{}
}

// NewDocuments returns documents of which none is kept yet.
func NewDocuments() *Documents {
	return &Documents{cache: loan.Cache[documentKey, *content]{Capacity: keepDocuments, Keep: keepTime},
		places: make(map[string]chan struct{})}
}

// keepDocuments is the weight of the documents that are kept, in bytes.
const keepDocuments = 16 << 20

// A changeKey names a net change: the difference between two positions of a query.
type changeKey struct {
	query, epoch string
	prev, seq    uint64
}

// A documentKey identifies a document by the change or result that it holds and by its
// encoding.
type documentKey struct {
	changeKey
	as string
}

// A content holds the bytes of a document in separately allocated pieces: holding one
// does not keep the others in memory.
type content struct {
	pieces [][]byte // of Chunk bytes, but the last
	size   int
	sum    uint64
	about  any
}

// newContent keeps b if it is one piece, else copies it in pieces.
func newContent(b []byte) *content {
	if len(b) <= Chunk {
		return &content{pieces: [][]byte{b}, size: len(b)}
	}
	var w pieces
	w.Write(b) // never fails
	return w.content(nil)
}

// pieces is a writer that splits what is written into pieces.
type pieces struct {
	list [][]byte
	size int
	sum  xxh3.Hasher
}

func (p *pieces) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		last := len(p.list) - 1
		if last < 0 || len(p.list[last]) == Chunk {
			p.list = append(p.list, make([]byte, 0, min(Chunk, max(len(rest), 4<<10))))
			last++
		}
		room := Chunk - len(p.list[last])
		n := min(room, len(rest))
		p.list[last] = append(p.list[last], rest[:n]...)
		rest = rest[n:]
	}
	p.size += len(b)
	p.sum.Write(b)
	return len(b), nil
}

func (p *pieces) content(about any) *content {
	if len(p.list) == 0 {
		p.list = [][]byte{nil}
	}
	return &content{pieces: p.list, size: p.size, sum: p.sum.Sum64(), about: about}
}

func weighContent(c *content) int { return c.size }

// ErrMoved reports that what was being sent is no longer kept.
var ErrMoved = errors.New("the content that was being sent is no longer kept")

func (d *Documents) content(key documentKey, make func() ([]byte, error)) (*content, error) {
	return d.cache.Get(key, func() (*content, error) {
		b, err := make()
		if err != nil {
			return nil, err
		}
		return newContent(b), nil
	}, weighContent)
}

// Open returns the document of a key, and the note about it that write returns. write
// is called again if the document was dropped meanwhile; it must then write the same
// bytes or return an error, which ends the transfer. It must not keep large values.
// Only a few documents of a class are written at a time.
func (d *Documents) Open(class, key string, write func(io.Writer) (about any, err error)) (doc *Document, about any, err error) {
	k := documentKey{as: class + " " + shortKey(key)}
	places := d.class(class)
	get := func() (*content, error) {
		return d.cache.Get(k, func() (*content, error) {
			places <- struct{}{}
			defer func() { <-places }()
			var p pieces
			about, err := write(&p)
			return p.content(about), err
		}, weighContent)
	}
	c, err := get()
	if err != nil {
		return nil, nil, err
	}
	return newDocument(c, get), c.about, nil
}

// shortKey returns a key of bounded length, because the cache does not count the size
// of keys.
func shortKey(key string) string {
	if len(key) <= 128 {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return string(sum[:])
}

func (d *Documents) class(name string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.places[name] == nil {
		d.places[name] = make(chan struct{}, 1+runtime.GOMAXPROCS(0))
	}
	return d.places[name]
}

// open is Open for what all followers share. now makes the bytes from what the
// caller holds; again makes them without it.
func (d *Documents) open(key documentKey, now, again func() ([]byte, error)) (*Document, error) {
	c, err := d.content(key, now)
	if err != nil {
		return nil, err
	}
	return newDocument(c, func() (*content, error) { return d.content(key, again) }), nil
}

// newDocument returns a document with its content. again gets the content again after
// it was dropped.
func newDocument(c *content, again func() (*content, error)) *Document {
	doc := &Document{again: again, size: c.size, sum: c.sum}
	doc.held.Put(c)
	return doc
}

// A Document is one sender's view of shared content. One goroutine uses it at a time.
type Document struct {
	again func() (*content, error)
	size  int
	sum   uint64
	held  loan.Loan[content]
}

// Size returns the length in bytes.
func (d *Document) Size() int { return d.size }

// Small returns the content if it is one piece that is held, else nil.
func (d *Document) Small() []byte {
	if c := d.held.Get(); c != nil && len(c.pieces) == 1 {
		return c.pieces[0]
	}
	return nil
}

// Close drops the content.
func (d *Document) Close() { d.held.Drop() }

// WriteTo writes the document in pieces.
func (d *Document) WriteTo(w io.Writer) (done int64, err error) {
	err = d.Each(func(p []byte) error {
		n, err := w.Write(p)
		done += int64(n)
		return err
	})
	return done, err
}

// Each passes the pieces to write, in order.
func (d *Document) Each(write func([]byte) error) error {
	last := max(0, (d.size-1)/Chunk)
	for i := 0; i <= last; i++ {
		p, err := d.piece(i)
		if err != nil {
			return err
		}
		if i == last {
			d.held.Drop()
			return write(p)
		}
		d.held.During(func() { err = write(p) })
		if err != nil {
			return err
		}
	}
	return nil
}

// During runs wait, which may take long. Meanwhile the content may be dropped.
func (d *Document) During(wait func()) { d.held.During(wait) }

// Have gets the content again if it was dropped. The error is ErrMoved if that cannot be.
func (d *Document) Have() error {
	_, err := d.piece(0)
	return err
}

func (d *Document) piece(i int) ([]byte, error) {
	c := d.held.Get()
	if c == nil {
		var err error
		if c, err = d.again(); err != nil {
			return nil, err
		}
		if c.size != d.size || c.sum != d.sum {
			return nil, ErrMoved
		}
		d.held.Put(c)
	}
	return c.pieces[i], nil
}

// Chunk is the piece of a message that has to make progress within the write
// timeout. A large message over a thin line is slow, not blocked.
const Chunk = 32 << 10
