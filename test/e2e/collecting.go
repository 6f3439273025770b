// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Collecting is a running `waymark collect`.
type Collecting struct {
	T             *testing.T
	Cmd           *exec.Cmd
	output, notes *Transcript
	At            []string // ADDRESS:PORT where it listens
	Ended         bool
}

var endpoints = regexp.MustCompile(`receives at (.*)\n`)

// StartCollect starts cmd, which runs the program with `collect --json` and
// arguments, and waits until it listens. The caller's start starts it.
func StartCollect(t *testing.T, cmd *exec.Cmd, start func() error) *Collecting {
	t.Helper()
	c := &Collecting{T: t, Cmd: cmd, output: &Transcript{}, notes: &Transcript{}}
	cmd.Stdout, cmd.Stderr = c.output, c.notes
	if err := start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !c.Ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("collect printed\n%s\nand wrote\n%s", c.notes, c.output)
		}
	})
	Await(t, "collect listens", 10*time.Second, func() bool { return strings.Contains(c.notes.String(), "receives at ") })
	for _, e := range strings.Split(endpoints.FindStringSubmatch(c.notes.String())[1], ", ") {
		_, address, _ := strings.Cut(e, "://")
		c.At = append(c.At, address)
	}
	return c
}

// Lines returns the complete lines so far.
func (c *Collecting) Lines() []string {
	text := c.output.String()
	if text = text[:strings.LastIndexByte(text, '\n')+1]; text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// Statistics are a collector's counters as in its JSON.
type Statistics struct {
	Kind       string            `json:"kind"`
	Counts     map[string]uint64 `json:"counts"`
	Paths      map[string]uint64 `json:"paths"`
	Malformed  map[string]uint64 `json:"malformed"`
	Impossible map[string]uint64 `json:"impossible"`
	Pairs      []Pair            `json:"pairs"`
}

// Pair counts the packets that one node reported, by the node that reported them next.
type Pair struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Packets uint64 `json:"packets"`
	Lost    uint64 `json:"lost"`
	Unknown uint64 `json:"unknown"`
}

// Stop interrupts it, as a user would, and returns its records and statistics.
func (c *Collecting) Stop() (records []string, stats Statistics) {
	c.T.Helper()
	if err := c.Cmd.Process.Signal(os.Interrupt); err != nil {
		c.T.Fatal(err)
	}
	c.Ended = true
	if err := c.Cmd.Wait(); err != nil {
		c.T.Errorf("collect ended with %v", err)
	}
	notes := strings.Split(strings.TrimSuffix(c.notes.String(), "\n"), "\n")
	last := notes[len(notes)-1]
	if err := json.Unmarshal([]byte(last), &stats); err != nil || stats.Kind != "statistics" {
		c.T.Fatalf("the last message is %s (%v)", last, err)
	}
	return c.Lines(), stats
}

// CheckNothingWrong checks that nothing was malformed, impossible, refused or
// dropped.
func CheckNothingWrong(t *testing.T, s Statistics) {
	t.Helper()
	for _, counts := range []map[string]uint64{s.Malformed, s.Impossible} {
		for name, n := range counts {
			if n > 0 {
				t.Errorf("%s: %d", name, n)
			}
		}
	}
	for _, name := range []string{"socket_dropped", "sessions_refused", "connections_refused", "connections_timed_out", "connections_broken",
		"handshakes_failed"} {
		if n, known := s.Counts[name]; n > 0 || !known {
			t.Errorf("%s: %d (%v)", name, n, known)
		}
	}
}
