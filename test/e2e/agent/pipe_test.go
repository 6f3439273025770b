// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// An agent that exports to a named pipe serves without a reader of it, and while one has stopped. It
// changes the sink, and ends, when it is told to.
func TestAgentWithNamedPipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	top := e2e.Builtin(t, "line")
	e2e.Reconfigure(t, top, "aramis", "node: {", "export: [{kind: jsonl, path: "+pipe+"}]\nnode: {")
	l := e2e.Raise(t, top) // the agent answers
	if out := e2e.MustIn(t, l, "aramis", "status", "--wide"); !strings.Contains(out, "no process reads this named pipe") {
		t.Errorf("status does not say that nothing reads the pipe:\n%s", out)
	}
	send := func(count int) {
		t.Helper()
		e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Interval: 100 * time.Microsecond, Size: 64, Port: 9000})
	}
	send(100)
	reader, err := os.OpenFile(pipe, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	send(5000) // the pipe holds less than their records
	end := func(what string, how func()) {
		t.Helper()
		began := time.Now()
		if how(); time.Since(began) > 8*time.Second {
			t.Errorf("%s took %v", what, time.Since(began))
		}
	}
	end("a change of the sink", func() {
		e2e.Rewrite(t, l, "aramis", func(c string) string { return strings.ReplaceAll(c, pipe, pipe+".2") })
		e2e.MustIn(t, l, "aramis", "agent", "reload")
		e2e.Rewrite(t, l, "aramis", func(c string) string { return c + "# again\n" })
		e2e.MustIn(t, l, "aramis", "agent", "reload")
	})
	send(5000)
	pid := e2e.AgentProcess(t, l, "aramis")
	end("the end", func() {
		e2e.SignalAgent(t, l, "aramis", syscall.SIGTERM)
		e2e.Await(t, "the agent's end", 20*time.Second, func() bool { return syscall.Kill(pid, 0) != nil })
	})
}
