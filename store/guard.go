package store

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	bolterrors "go.etcd.io/bbolt/errors"
)

// guarded turns a panic of f, or a fault of the mapped memory, into ErrDamaged,
// because bbolt does not validate pages. Panics in code outside of page access are
// passed on.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if !pagesFault() {
				panic(r)
			}
			err = &crash{fmt.Errorf("%w: a page holds what no page can hold (%v): %s", ErrDamaged, r, putBackup)}
		}
	}()
	err = f()
	for _, e := range []error{bolterrors.ErrBucketNotFound, bolterrors.ErrIncompatibleValue, bolterrors.ErrBucketExists} {
		if errors.Is(err, e) { // buckets are the same in every store
			return fmt.Errorf("%w: %w: %s", ErrDamaged, err, putBackup)
		}
	}
	return err
}

// pagesFault reports whether the current panic began in code that reads pages:
// bbolt's, this package's, or diff's, which unpacks results.
func pagesFault() bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])]) // skip this and the deferred function
	for f, more := frames.Next(); more; f, more = frames.Next() {
		if of, ours := strings.CutPrefix(f.Function, "github.com/freshet/freshet/"); ours {
			return strings.HasPrefix(of, "store.") || strings.HasPrefix(of, "diff.")
		}
		if strings.HasPrefix(f.Function, "go.etcd.io/bbolt") {
			return true
		}
	}
	return true
}
