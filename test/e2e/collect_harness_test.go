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

	"github.com/waymark-net/waymark/internal/collect"
)

// collecting is waymark collect, running.
type collecting struct {
	t             *testing.T
	cmd           *exec.Cmd
	output, notes *transcript
	at            []string // ADDRESS:PORT where it listens
	ended         bool
}

var endpoints = regexp.MustCompile(`receives at (.*)\n`)

// startCollect starts the program that cmd is, with `collect --json` and
// arguments, and waits until it listens. start starts it.
func startCollect(t *testing.T, cmd *exec.Cmd, start func() error) *collecting {
	t.Helper()
	c := &collecting{t: t, cmd: cmd, output: &transcript{}, notes: &transcript{}}
	cmd.Stdout, cmd.Stderr = c.output, c.notes
	if err := start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !c.ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("collect said:\n%s\nand wrote:\n%s", c.notes, c.output)
		}
	})
	await(t, "collect listens", 10*time.Second, func() bool { return strings.Contains(c.notes.String(), "receives at ") })
	for _, e := range strings.Split(endpoints.FindStringSubmatch(c.notes.String())[1], ", ") {
		_, address, _ := strings.Cut(e, "://")
		c.at = append(c.at, address)
	}
	return c
}

// collectHere runs it in the network namespace of the tests.
func collectHere(t *testing.T, args ...string) *collecting {
	t.Helper()
	cmd := exec.Command(program, append([]string{"collect", "--json"}, args...)...)
	return startCollect(t, cmd, cmd.Start)
}

// lines are the whole lines so far.
func (c *collecting) lines() []string {
	text := c.output.String()
	if text = text[:strings.LastIndexByte(text, '\n')+1]; text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// stop interrupts it, as people do, and gives its records and statistics.
func (c *collecting) stop() (records []string, stats collect.Statistics) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		c.t.Fatal(err)
	}
	c.ended = true
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("collect ended with %v", err)
	}
	notes := strings.Split(strings.TrimSuffix(c.notes.String(), "\n"), "\n")
	last := notes[len(notes)-1]
	if err := json.Unmarshal([]byte(last), &stats); err != nil || stats.Kind != "statistics" {
		c.t.Fatalf("the last note is %s (%v)", last, err)
	}
	return c.lines(), stats
}

// checkNothingWrong checks that nothing was malformed, impossible or dropped.
func checkNothingWrong(t *testing.T, s collect.Statistics) {
	t.Helper()
	for _, counts := range []map[string]uint64{s.Malformed, s.Impossible} {
		for name, n := range counts {
			if n > 0 {
				t.Errorf("%s: %d", name, n)
			}
		}
	}
	for _, name := range []string{"socket_dropped", "sessions_refused", "connections_refused", "connections_timed_out", "connections_broken", "handshakes_failed"} {
		if n, known := s.Counts[name]; n > 0 || !known {
			t.Errorf("%s: %d (%v)", name, n, known)
		}
	}
}
