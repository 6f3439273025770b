// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// output is what a command writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// losses are the records of the whole way of a flow.
func (o *output) losses(t *testing.T, flow string) (list []*record.Loss) {
	t.Helper()
	text := o.String()
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		r, err := record.Parse([]byte(line))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if l, ok := r.(*record.Loss); ok && l.Flow == flow && l.Scope == record.WholeWay {
			list = append(list, l)
		}
	}
	return list
}

// followThroughRestart kills the agent of the ingress for longer than two blocks while the
// results are followed: the command goes on with the next agent, whose first record says that
// nothing is known of the blocks between.
func followThroughRestart(t *testing.T, l *lab.Lab) {
	t.Helper()
	ingress := l.Node("ingress")
	var out, notes output
	ctx, cancel := context.WithCancel(t.Context())
	follow := ingress.Command(ctx, e2e.Program, "loss", "--follow", "--json", "--flow", "north")
	follow.Stdout, follow.Stderr = &out, &notes
	ended := make(chan error, 1)
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- follow.Wait() }()
	defer func() { cancel(); <-ended }()
	const enough = 2
	e2e.Await(t, "some results", 10*time.Second, func() bool { return len(out.losses(t, "north")) >= enough })
	pid := e2e.AgentProcess(t, l, "ingress")
	e2e.SignalAgent(t, l, "ingress", syscall.SIGKILL)
	e2e.Await(t, "the agent's end", 10*time.Second, func() bool { return syscall.Kill(pid, 0) != nil })
	time.Sleep(4 * time.Second) // blocks that no agent can know
	if _, err := ingress.StartAgent(t.Context(), l.Topology().Node("ingress").Agent.Config); err != nil {
		t.Fatal(err)
	}
	e2e.Await(t, "results of the next agent", 20*time.Second, func() bool {
		list := out.losses(t, "north")
		return len(list) > enough+1 && list[len(list)-1].Verdict.Exact() && strings.Contains(notes.String(), "an agent runs again")
	})
	gaps, next := 0, uint64(0)
	for _, each := range out.losses(t, "north") {
		blocks := each.Length / uint64(time.Second)
		if next != 0 && each.Block.Value != next {
			t.Errorf("block %d comes after %d", each.Block.Value, next-1)
		}
		next = each.Block.Value + blocks
		if each.Verdict == loss.NoData && blocks > 1 {
			gaps++
		}
	}
	if gaps != 1 {
		t.Errorf("%d records of several blocks: %s", gaps, out.String())
	}
	if n := notes.String(); strings.Count(n, "the agent has ended; waiting for the next one") != 1 {
		t.Errorf("notes: %s", n)
	}
	select {
	case err := <-ended:
		t.Errorf("the command has ended: %v", err)
		ended <- err
	default:
	}
}
