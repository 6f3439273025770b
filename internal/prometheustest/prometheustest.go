// SPDX-License-Identifier: Apache-2.0

// Package prometheustest finds Debian's Prometheus and its tools for tests.
package prometheustest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program is the path of one of its programs: on the PATH, else where scripts/setup.sh unpacks it.
func Program(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath(filepath.Join(cache, "waymark/prometheus/usr/bin", name))
	if err != nil {
		t.Fatalf("%v; run: scripts/setup.sh test", err)
	}
	return path
}
