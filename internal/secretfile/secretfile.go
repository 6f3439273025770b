// SPDX-License-Identifier: Apache-2.0

// Package secretfile reads and writes the files of keys.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
)

// mode lets only the owner read and write.
const mode fs.FileMode = 0o600

// Read reads at most limit bytes of a file that only this user, or root, can read or
// replace. cure says how to make such a file.
func Read(name string, limit int64, cure string) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO would wait for a writer
	if errors.Is(err, fs.ErrPermission) {                          // it may be there: another cure would replace it
		return nil, problem.Wrap(fmt.Errorf("read the key: %w", err), "run this as root, or as the file's owner")
	}
	if err != nil {
		return nil, problem.Wrap(fmt.Errorf("read the key: %w", err), cure)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the key: %w", err)
	case !info.Mode().IsRegular():
		return nil, problem.New(fmt.Sprintf("the key %s is no regular file", name), cure)
	case info.Mode().Perm()&^mode != 0:
		return nil, problem.New(fmt.Sprintf("others can access the key %s (mode %04o)", name, info.Mode().Perm()),
			fmt.Sprintf("run: chmod 600 %s, and change the key if they may have read it", name))
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != os.Geteuid() {
		return nil, problem.New(
			fmt.Sprintf("the key %s belongs to another user (uid %d), who can read and change it", name, owner),
			fmt.Sprintf("run: chown %d %s", os.Geteuid(), name),
		)
	}
	content, err := io.ReadAll(io.LimitReader(file, limit))
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	return content, nil
}

// Write makes a new file with a key, which only this user can read. It never replaces a
// file.
func Write(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return problem.New(name+" exists already", "remove it, or choose another directory")
	}
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(fmt.Errorf("write the key: %w", err), os.Remove(name))
	}
	return nil
}
