// SPDX-License-Identifier: Apache-2.0

// Package replacefile replaces files whole.
package replacefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
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

// Edit is Write for a file of others, which is there: its owner, group and mode stay, its extended attributes
// as far as this user may give them, such as the label of SELinux and access control lists, and a symbolic
// link goes on pointing to it; other hard links do not. Where this user may not
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
	if err := resemble(next, path, info); err != nil {
		return errors.Join(err, next.Close(), os.Remove(next.Name()))
	}
	return replace(path, next, content)
}

// resemble gives a file the owner, the group, the mode and the extended attributes of another.
func resemble(f *os.File, path string, info fs.FileInfo) error {
	if old, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := f.Chown(int(old.Uid), int(old.Gid)); err != nil {
			return err
		}
	}
	if err := f.Chmod(info.Mode()); err != nil { // after the owner: a change of that ends setuid
		return err
	}
	return copyAttributes(f, path) // after the mode: a list of access has the group's part of it
}

// accessList is the attribute of an access control list. A new file may have one from its directory.
const accessList = "system.posix_acl_access"

// ofContent are attributes that depend on the content: with those of another file, this one could not be read.
var ofContent = []string{"security.ima", "security.evm"}

// copyAttributes gives a file the extended attributes of another, as far as that is possible: some file systems
// have none, and of some attributes, only the kernel or root decides.
func copyAttributes(f *os.File, path string) error {
	names, err := attribute(func(to []byte) (int, error) { return unix.Listxattr(path, to) })
	if err != nil {
		return impossible("listxattr", path, err)
	}
	list := strings.FieldsFunc(string(names), func(c rune) bool { return c == 0 })
	if !slices.Contains(list, accessList) {
		if err := impossible("removexattr", path, unix.Fremovexattr(int(f.Fd()), accessList)); err != nil {
			return err
		}
	}
	for _, name := range list {
		if slices.Contains(ofContent, name) {
			continue
		}
		value, err := attribute(func(to []byte) (int, error) { return unix.Getxattr(path, name, to) })
		if err == nil {
			err = unix.Fsetxattr(int(f.Fd()), name, value, 0)
		}
		if err := impossible("setxattr "+name, path, err); err != nil {
			return err
		}
	}
	return nil
}

// impossible is an error of an extended attribute that has another reason than that this cannot be.
func impossible(op, path string, err error) error {
	for _, known := range []error{unix.ENOTSUP, unix.EPERM, unix.EACCES, unix.ENODATA, unix.EINVAL} {
		if errors.Is(err, known) {
			return nil
		}
	}
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// attribute reads a value of which the size is not known, and which may grow meanwhile.
func attribute(read func([]byte) (int, error)) ([]byte, error) {
	for range 10 {
		size, err := read(nil)
		if err != nil || size == 0 {
			return nil, err
		}
		value := make([]byte, size)
		if size, err = read(value); !errors.Is(err, unix.ERANGE) {
			return value[:max(size, 0)], err
		}
	}
	return nil, unix.ERANGE
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
