// SPDX-License-Identifier: Apache-2.0

package replacefile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"one, which is longer", "two"} {
		if err := Write(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%q, %v; want %q", got, err, content)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(list) != 1 {
		t.Errorf("%v, %v: more than the file is left", list, err)
	}
}

// On a full disk, the old file stays as it is, and no part of the new one is left.
func TestFullDisk(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "file")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new"), 0o600); err == nil {
		t.Error("nobody says that the disk is full")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("%q, %v; want the old file", got, err)
	}
	if _, err := os.Lstat(path + ".new"); !os.IsNotExist(err) {
		t.Errorf("a part is left: %v", err)
	}
	if err := Write(filepath.Join(directory, "nothing", "file"), nil, 0o600); err == nil {
		t.Error("a directory that is not there is no error")
	}
}

// A file that belongs to another user and group still does, with its mode, whatever the umask; a link
// to it is one afterwards.
func TestEdit(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 1234, 5678
		if err := os.Chown(path, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o666); err != nil { // after WriteFile, whose mode the umask limits
		t.Fatal(err)
	}
	if err := Edit(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != uid || int(s.Gid) != gid || info.Mode() != 0o666 {
		t.Errorf("%+v, want owner %d, group %d, mode 0666", info, uid, gid)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	if to, err := os.Readlink(link); err != nil || to != "file" {
		t.Errorf("the link is %q, %v", to, err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 2 {
		t.Errorf("%v, %v: more than file and link are left", list, err)
	}
	for _, wrong := range []string{dir, filepath.Join(dir, "none")} {
		if err := Edit(wrong, nil); err == nil {
			t.Errorf("%s was replaced", wrong)
		}
	}
}

// list is an access control list, of version 2: the owner reads and writes, user 1234 reads, the group nothing, the mask
// reads, others nothing.
const list = "\x02\x00\x00\x00" +
	"\x01\x00\x06\x00\xff\xff\xff\xff" + "\x02\x00\x04\x00\xd2\x04\x00\x00" + "\x04\x00\x00\x00\xff\xff\xff\xff" +
	"\x10\x00\x04\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff"

// Extended attributes of a file stay, among them an access control list, and the mode with it.
func TestEditKeepsAttributes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	attributes := map[string]string{"user.waymark": "a value", "user.empty": "", accessList: list}
	for name, value := range attributes {
		err := unix.Setxattr(path, name, []byte(value), 0)
		if errors.Is(err, unix.ENOTSUP) { // of a file system without them, nothing is to be kept
			delete(attributes, name)
		} else if err != nil {
			t.Fatal(name, err)
		}
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Edit(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	for name, want := range attributes {
		value := make([]byte, 1000)
		n, err := unix.Getxattr(path, name, value)
		if err != nil || string(value[:n]) != want {
			t.Errorf("%s: %q, %v; want %q", name, value[:max(n, 0)], err, want)
		}
	}
	after, err := os.Stat(path)
	if err != nil || after.Mode() != before.Mode() || os.SameFile(before, after) {
		t.Errorf("mode %v, before %v, %v", after.Mode(), before.Mode(), err)
	}
}

// A file without an access control list gets none from its directory: others could read it then.
func TestEditAddsNoAccess(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	err := unix.Setxattr(dir, "system.posix_acl_default", []byte(list), 0)
	if errors.Is(err, unix.ENOTSUP) {
		return // no file gets one
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := Edit(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Getxattr(path, accessList, nil); !errors.Is(err, unix.ENODATA) {
		t.Errorf("a list of %d bytes, %v", n, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
}
