// SPDX-License-Identifier: Apache-2.0

// Package pintest gives tests a place for what they pin.
package pintest

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/test/testnet"
)

// Directory is a directory for pins that the test has for itself, where agents
// keep theirs. It need not exist yet, and is gone after the test.
func Directory(t testing.TB) string {
	t.Helper()
	testnet.NeedRoot(t)
	root := filepath.Join(api.Root, "bpf")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type != unix.BPF_FS_MAGIC {
		if err := unix.Mount("bpf", root, "bpf", 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	directory, err := os.MkdirTemp(root, "test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	return directory
}
