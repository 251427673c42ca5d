package feed

import (
	"bufio"
	"bytes"
	"io"
)

// A message is one event of a stream of server-sent events.
type message struct {
	id, event string
	data      []byte
	cut       bool // data had more than the maximum and is left out
}

// A messageReader reads server-sent events. Fields that nothing needs are skipped.
type messageReader struct {
	in   *bufio.Reader
	most int // bytes of data
	id   string

	comments bool // a comment has come since the last message
}

func newMessageReader(r io.Reader, most int) *messageReader {
	return &messageReader{in: bufio.NewReaderSize(r, 64<<10), most: most}
}

// next returns the next message. A message that is cut off at the end of the stream does not count.
func (r *messageReader) next() (message, error) {
	var m message
	for some := false; ; {
		line, cut, err := r.line()
		if err != nil {
			return message{}, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && !cut && some:
			m.id, r.comments = r.id, false
			return m, nil
		case len(line) > 0 && line[0] == ':':
			r.comments = true
		case string(name) == "data":
			if !some {
				m.data = value // the line is a copy of its own
			} else {
				m.data = append(append(m.data, '\n'), value...)
			}
			some = true
			if m.cut = m.cut || cut || len(m.data) > r.most; m.cut {
				m.data = nil
			}
		case string(name) == "id" && !cut:
			r.id = string(value)
		case string(name) == "event" && !cut:
			m.event = string(value)
		}
	}
}

// line reads one line. Of a longer one than the maximum it returns the beginning.
func (r *messageReader) line() (line []byte, cut bool, err error) {
	for {
		part, err := r.in.ReadSlice('\n')
		if len(line) <= r.most {
			line = append(line, part...)
		} else {
			cut = true
		}
		if err != bufio.ErrBufferFull {
			return bytes.TrimRight(line, "\r\n"), cut, err
		}
	}
}

// ready reports whether a whole message has arrived, so that next does not wait.
func (r *messageReader) ready() bool {
	b, _ := r.in.Peek(r.in.Buffered())
	return bytes.Contains(b, []byte("\n\n")) || bytes.Contains(b, []byte("\n\r\n"))
}
