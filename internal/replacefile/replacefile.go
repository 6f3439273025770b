// SPDX-License-Identifier: Apache-2.0

// Package replacefile replaces files whole.
package replacefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Write replaces a file, or makes it. A crash, of the program or of the machine, leaves either the old
// or the new one complete. One program writes a file at a time.
func Write(path string, content []byte, mode fs.FileMode) error {
	return write(path, content, mode, func(*os.File) error { return nil })
}

// Edit is Write for a file of others, which is there: its owner, group and mode stay, and a symbolic
// link goes on pointing to it. Where this user may not give the new file to the owner of the old one,
// that is an error, and the old one stays.
func Edit(path string, content []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "replace", Path: path, Err: errors.New("not a regular file")}
	}
	return write(path, content, 0o600, func(f *os.File) error {
		if old, ok := info.Sys().(*syscall.Stat_t); ok {
			if err := f.Chown(int(old.Uid), int(old.Gid)); err != nil {
				return err
			}
		}
		return f.Chmod(info.Mode()) // last: a change of the owner ends setuid
	})
}

// write replaces a file by one that prepare is called with while it is empty.
func write(path string, content []byte, mode fs.FileMode, prepare func(*os.File) error) error {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if err = prepare(f); err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = os.Remove(next) // of a full disk, it keeps nothing
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// syncDirectory makes the renaming outlast a crash of the machine.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
