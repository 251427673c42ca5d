package store

import (
	"fmt"

	"go.etcd.io/bbolt"
)

// maxFindings is the maximum number of findings that Check returns.
const maxFindings = 100

// A checker checks what one read transaction sees.
type checker struct {
	pack     *packer
	tx       *bbolt.Tx
	findings []error
	serials  map[uint64]string // of live queries
	gone     map[uint64]bool   // serials that wait for the purge
}

func (c *checker) found(format string, args ...any) {
	if len(c.findings) < maxFindings {
		c.findings = append(c.findings, fmt.Errorf(format, args...))
	}
}

// size counts the keys of a bucket that begin with prefix.
func (c *checker) size(bucket, prefix []byte) (n uint64) {
	cur := c.tx.Bucket(bucket).Cursor()
	for k, _ := cur.Seek(prefix); hasPrefix(k, prefix) && k != nil; k, _ = cur.Next() {
		n++
	}
	return n
}
