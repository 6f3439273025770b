// SPDX-License-Identifier: Apache-2.0

package replacefile

import (
	"os"
	"path/filepath"
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
