// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// In the journal, an error has its priority, also one with which the service ends.
func TestErrorInTheJournal(t *testing.T) {
	t.Parallel()
	for of, want := range map[string]string{"journal": "<3>waymark-collector: ", "another": "waymark-collector: "} {
		path := filepath.Join(t.TempDir(), "stderr")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		var stat syscall.Stat_t
		if err := syscall.Fstat(int(file.Fd()), &stat); err != nil {
			t.Fatal(err)
		}
		if of == "another" {
			stat.Ino++
		}
		service := exec.Command(os.Args[0], "run", "--config", "/nonexistent")
		service.Stderr, service.Env = file, []string{"WAYMARK_COLLECTOR_TEST=1", fmt.Sprintf("JOURNAL_STREAM=%d:%d", stat.Dev, stat.Ino)}
		if err := service.Run(); err == nil {
			t.Error("it runs")
		}
		file.Close()
		if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), want) || strings.Count(string(text), "\n") != 1 {
			t.Errorf("%s: %q, %v", of, text, err)
		}
	}
}
