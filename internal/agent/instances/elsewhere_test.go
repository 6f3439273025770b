// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/api"
)

// Agents that run are found, with the names of their namespaces; those that ended are not.
func TestElsewhere(t *testing.T) {
	root, named := t.TempDir(), t.TempDir()
	own, runs, ended := api.At(root, 1), api.At(root, 2), api.At(root, 3)
	for _, instance := range []api.Instance{own, runs} {
		l, err := Hold(instance)
		if err != nil {
			t.Fatal(err)
		}
		defer l.file.Close()
	}
	if err := os.MkdirAll(ended.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ended.LockFile(), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "bpf"), 0o700); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Other{{Instance: runs}}, Elsewhere(root, filepath.Join(named, "missing"), own)); diff != "" {
		t.Error(diff)
	}
	// A name is a file of the namespace, as this link to it.
	if err := os.Symlink(fmt.Sprintf("/proc/%d/ns/net", os.Getpid()), filepath.Join(named, "athos")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Other{{Instance: runs, Namespace: "athos"}}, Elsewhere(root, named, own)); diff != "" {
		t.Error(diff)
	}
	if list := Elsewhere(filepath.Join(root, "missing"), named, own); list != nil {
		t.Errorf("%+v", list)
	}
}
