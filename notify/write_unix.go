//go:build unix

package notify

import "syscall"

// writeNow writes what there is room for to a socket that does not block.
func writeNow(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return 0, nil
		}
		return max(n, 0), err
	}
}
