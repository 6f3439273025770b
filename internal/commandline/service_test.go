// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"os"
	"path/filepath"
	"testing"
)

// What starts a program is its service only where systemd runs and the unit is installed.
func TestToStart(t *testing.T) {
	root := t.TempDir()
	before, was := unitDirectories, running
	t.Cleanup(func() { unitDirectories, running = before, was })
	unitDirectories, running = []string{filepath.Join(root, "none"), filepath.Join(root, "units")}, filepath.Join(root, "running")
	expect := func(want string) {
		t.Helper()
		if got := ToStart("waymark", "waymark agent run"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	expect("waymark agent run")
	units := unitDirectories[1]
	if err := os.Mkdir(units, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(units, "waymark.service"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	expect("waymark agent run")
	if err := os.Mkdir(running, 0o755); err != nil {
		t.Fatal(err)
	}
	expect("systemctl start waymark")
	if err := os.Remove(filepath.Join(units, "waymark.service")); err != nil {
		t.Fatal(err)
	}
	expect("waymark agent run")
}
