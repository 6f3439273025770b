// SPDX-License-Identifier: Apache-2.0

package replacefile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
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
