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
	next, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	return replace(path, next, content)
}

// Edit is Write for a file of others, which is there: its owner, group and mode stay, and a symbolic
// link goes on pointing to it; extended attributes and other hard links do not. Where this user may not
// give the new file to the owner of the old one, that is an error, and the old one stays.
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
	// The new file gets a name of its own: any other name may be taken by a file of somebody else.
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	if err := resemble(next, info); err != nil {
		return errors.Join(err, next.Close(), os.Remove(next.Name()))
	}
	return replace(path, next, content)
}

// resemble gives a file the owner, the group and the mode of another.
func resemble(f *os.File, info fs.FileInfo) error {
	if old, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := f.Chown(int(old.Uid), int(old.Gid)); err != nil {
			return err
		}
	}
	return f.Chmod(info.Mode()) // last: a change of the owner ends setuid
}

// replace fills an empty file, and gives it the place of another. If that fails, the empty one is removed.
func replace(path string, next *os.File, content []byte) error {
	_, err := next.Write(content)
	if err == nil {
		err = next.Sync()
	}
	if e := next.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		_ = os.Remove(next.Name()) // of a full disk, it keeps nothing
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
