// The files in which a member keeps the messages of journals. Damaged messages, and all after them, are
// removed before the server reads the files.

package nats

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/store/journal"
	"github.com/minio/highwayhash"
)

// JetStream keeps the messages of a stream in blocks, the files 1.blk, 2.blk …. A block is a list of
// records: length (4 bytes), number (8), time (8), length of the subject (2), subject, length of the
// header (4, only if there is one), header, data, checksum (8). If a record cannot be read, JetStream
// forgets the rest of its block, and uses the blocks after it in spite of that. If the end of the
// last block is missing, it may count the missing messages as deleted, because its summary has them.
// In both cases the copy has a hole that no other member fills.
const (
	blockSuffix = ".blk"
	summaryFile = "index.db" // of all blocks; JetStream makes it from them if it is missing
	prefixSize  = 22         // of a record, up to its subject
	sumSize     = 8
	hasHeader   = 1 << 31       // in the length
	isMarker    = 1<<63 | 1<<62 // in the number: the record is no message, but says that one was removed
	headerEnd   = "\r\n\r\n"    // of each header
	streamsGlob = "jetstream/$G/streams/*/msgs"
)

// repair makes the messages in dir end where they are damaged, and returns what was damaged. The
// server takes the messages that are removed from the log of its group, or from other members. A member
// that is alone keeps everything: its error is a journal.ErrUnreadable.
func repair(dir string, alone bool) (damages []string, err error) {
	streams, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(streamsGlob)))
	if err != nil {
		return nil, err
	}
	for _, s := range streams {
		what, err := repairStream(s, alone)
		if what != "" {
			damages = append(damages, what)
		}
		if err != nil {
			return damages, err
		}
	}
	return damages, nil
}

func repairStream(dir string, alone bool) (damage string, err error) {
	blocks, err := blocksOf(dir)
	if err != nil {
		return "", err
	}
	c := checker{stream: filepath.Base(filepath.Dir(dir))}
	for i, index := range blocks {
		path := blockPath(dir, index)
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		isEnd := i == len(blocks)-1
		intact, what := c.check(data, index)
		if len(data) == 0 && !isEnd {
			what = "it is empty"
		}
		if what == "" {
			continue
		}
		damage := fmt.Sprintf("%s is damaged at byte %d: %s", path, intact, what)
		if alone && (!isEnd || c.hole) {
			return "", journal.Unreadable(damage)
		}
		return damage, shorten(dir, blocks[i:], intact)
	}
	return "", remove(filepath.Join(dir, summaryFile))
}

// blocksOf returns the numbers of the blocks in a directory in order.
func blocksOf(dir string) (list []int, err error) {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), blockSuffix); ok {
			if n, err := strconv.Atoi(name); err == nil {
				list = append(list, n)
			}
		}
	}
	slices.Sort(list)
	return list, err
}

func blockPath(dir string, index int) string {
	return filepath.Join(dir, strconv.Itoa(index)+blockSuffix)
}

// shorten removes what is in the first of some blocks from a byte on, and the other blocks. It begins with
// the last block, so that the damage is found again after an interruption.
func shorten(dir string, blocks []int, intact int) error {
	errs := []error{remove(filepath.Join(dir, summaryFile))}
	for _, index := range slices.Backward(blocks[1:]) {
		errs = append(errs, remove(blockPath(dir, index)))
	}
	if intact == 0 {
		return errors.Join(append(errs, remove(blockPath(dir, blocks[0])))...)
	}
	return errors.Join(append(errs, os.Truncate(blockPath(dir, blocks[0]), int64(intact)))...)
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// A checker reads the blocks of a stream in order.
type checker struct {
	stream string
	last   uint64 // number of the last message so far; 0 for none
	hole   bool   // the messages after it are missing
}

// check returns how many bytes of a block are intact, and what is wrong with the next record: "" if
// nothing is.
func (c *checker) check(block []byte, index int) (intact int, damage string) {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", c.stream, index))
	sum, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return 0, err.Error() // the key has another length
	}
	for intact < len(block) {
		size, damage := intactRecord(block[intact:], sum)
		if damage == "" {
			damage = c.follow(binary.LittleEndian.Uint64(block[intact+4:]))
		}
		if damage != "" {
			return intact, damage
		}
		intact += size
	}
	return intact, ""
}

// follow takes the number of the next record. It returns what is wrong with it.
func (c *checker) follow(number uint64) (damage string) {
	seq := number &^ isMarker
	switch {
	case number != seq && (c.last == 0 || seq <= c.last): // of a message before the first one
	case number != seq:
		c.hole = true
		return fmt.Sprintf("message %d was removed", seq)
	case c.last > 0 && seq > c.last+1:
		c.hole = true
		return fmt.Sprintf("message %d follows message %d", seq, c.last)
	default:
		c.last = max(c.last, seq)
	}
	return ""
}

// intactRecord returns the size of the first record of some bytes, or what is wrong with it.
func intactRecord(b []byte, sum hash.Hash) (size int, damage string) {
	if len(b) < prefixSize+sumSize {
		return 0, "a record is cut"
	}
	length := binary.LittleEndian.Uint32(b)
	size = int(length &^ hasHeader)
	subjectEnd := prefixSize + int(binary.LittleEndian.Uint16(b[20:]))
	content := subjectEnd
	if length&hasHeader != 0 {
		content += 4
	}
	end := size - sumSize
	if size > len(b) || content > end {
		return 0, "a record is cut, or has a wrong length"
	}
	sum.Reset()
	for _, part := range [][]byte{b[4:20], b[prefixSize:subjectEnd], b[content:end]} {
		sum.Write(part)
	}
	if !bytes.Equal(sum.Sum(nil), b[end:size]) {
		return 0, "a record does not have its checksum"
	}
	if content > subjectEnd { // the checksum does not cover the length of the header
		n := int(binary.LittleEndian.Uint32(b[subjectEnd:]))
		if n > end-content || !bytes.HasSuffix(b[content:content+n], []byte(headerEnd)) {
			return 0, "a header has a wrong length"
		}
	}
	return size, ""
}
