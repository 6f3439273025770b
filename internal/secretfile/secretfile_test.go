// SPDX-License-Identifier: Apache-2.0

package secretfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWriteAndRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	if err := Write(name, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if got, err := Read(name, 100, "cure"); err != nil || string(got) != "secret" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Read(name, 3, "cure"); err != nil || !bytes.Equal(got, []byte("sec")) {
		t.Errorf("at most 3 bytes: %q, %v", got, err)
	}
	if err := Write(name, []byte("another")); err == nil || !strings.Contains(err.Error(), name+" exists already") {
		t.Errorf("a file was replaced: %v", err)
	}
	if err := Write(filepath.Join(name, "below"), nil); err == nil {
		t.Error("a file was written below a file")
	}
	if got, err := Read(name, 100, "cure"); err != nil || string(got) != "secret" {
		t.Errorf("after that: %q, %v", got, err)
	}
}

// Files that others can read or replace are refused, and nothing waits for a writer.
func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "key")
	if err := Write(name, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	refused := func(name, want string) {
		t.Helper()
		if got, err := Read(name, 100, "the cure"); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	refused(name+".none", "no such file or directory; the cure")
	refused(dir, "is no regular file; the cure")
	for _, others := range []os.FileMode{0o604, 0o640, 0o620, 0o602, 0o700} {
		if err := os.Chmod(name, others); err != nil {
			t.Fatal(err)
		}
		refused(name, "chmod 600 "+name)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(fifo, "is no regular file")
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(name, 12345, 0); err != nil {
		t.Fatal(err)
	}
	refused(name, "belongs to another user (uid 12345)")
}
