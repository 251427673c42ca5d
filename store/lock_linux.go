// What identifies the lock on the file of a store.

package store

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"syscall"
)

// localFileSystems have locks that end with their process, and not before: ext2 to ext4, XFS, Btrfs,
// ZFS, F2FS, tmpfs and overlayfs. A lock on a file of another machine may be lost.
var localFileSystems = []uint32{0xEF53, 0x58465342, 0x9123683E, 0x2FC12FC1, 0xF2F52010, 0x01021994, 0x794C7630}

// currentBoot identifies the time since the system was started. Zeros mean that it is unknown.
func currentBoot() (id [16]byte) {
	if text, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		sum := sha256.Sum256(text)
		copy(id[:], sum[:])
	}
	return id
}

// lockOf identifies the lock on an open file among all locks on this machine and on others, until the
// machine is started again. It returns "" if that is not certain.
func lockOf(f *os.File) string {
	var fs syscall.Statfs_t
	i, err := f.Stat()
	boot := currentBoot()
	if err != nil || boot == [16]byte{} || syscall.Fstatfs(int(f.Fd()), &fs) != nil || !slices.Contains(localFileSystems, uint32(fs.Type)) {
		return ""
	}
	s, ok := i.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %d %d", boot, s.Dev, s.Ino))
	return fmt.Sprintf("%x", sum[:12])
}
