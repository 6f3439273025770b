// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the built program from outside, as people use it: in
// topologies of network namespaces, with real traffic. Tests run side by side, but
// for those of fast forwarding: they hold the agent to how soon it sees a change.
package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/waymark-net/waymark/internal/kmsgtest"
)

// program is the path of the built waymark.
var program string

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (int, error) {
	if os.Geteuid() != 0 {
		return 1, errors.New("these tests make network namespaces; run them as root")
	}
	// where there is no Go, as on the machines of scripts/kernels.sh
	if program = os.Getenv("WAYMARK_PROGRAM"); program != "" {
		return kmsgtest.Run(m), nil
	}
	directory, err := os.MkdirTemp("", "waymark-e2e-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(directory)
	program = filepath.Join(directory, "waymark")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "github.com/waymark-net/waymark/cmd/waymark")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build waymark: %w\n%s", err, out)
	}
	return kmsgtest.Run(m), nil
}
