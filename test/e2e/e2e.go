// SPDX-License-Identifier: Apache-2.0

// Package e2e holds what the tests of the built program share: topologies of
// network namespaces, traffic through them, and what agents report. The tests
// are in the directories below, one package a subject.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/waymark-net/waymark/internal/kmsgtest"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/test/testnet"
)

// Program is the path of the built waymark, beside which Waymark's other programs are.
var Program string

// Run runs the tests of a package for its TestMain, with the program that
// WAYMARK_PROGRAM names, or one that it builds. It returns the exit code.
func Run(m *testing.M) int {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if why := testnet.HooksSet(); code != 0 && why != "" {
		fmt.Fprintln(os.Stderr, why)
	}
	return code
}

func run(m *testing.M) (int, error) {
	if os.Geteuid() != 0 {
		return 1, problem.New("these tests make network namespaces", "run them as root")
	}
	if Program = os.Getenv("WAYMARK_PROGRAM"); Program != "" {
		return kmsgtest.Run(m), nil
	}
	directory, err := os.MkdirTemp("", "waymark-e2e-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(directory)
	Program = filepath.Join(directory, "waymark")
	for packages, cgo := range map[string]string{"cmd/...": "0", "collector/cmd/...": "1"} {
		build := exec.Command("go", "build", "-buildvcs=false", "-o", directory+"/", "github.com/waymark-net/waymark/"+packages)
		build.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
		if out, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build waymark: %w\n%s", err, out)
		}
	}
	return kmsgtest.Run(m), nil
}
