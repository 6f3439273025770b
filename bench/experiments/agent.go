// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/agent/instances"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
)

// agentPatience is how long an agent may take to answer, or to end.
const agentPatience = 30 * time.Second

// settlingTime after its start, an agent has finished starting; it is then
// measured for idleTime.
const (
	settlingTime = time.Second
	idleTime     = 3 * time.Second
)

// Curves that have aims.
const (
	agentStart      = "agent: start"
	agentMemory     = "agent: resident memory"
	agentIdleMemory = agentMemory + ", idle"
	agentIdle       = "agent: processor time of an idle second"
	watching        = ", watching routes"
)

const nodeYAML = `node: {id: 2, id-wide: 22222222}
interfaces:
  - {name: n0, id: 201, id-wide: 201201, role: [ingress, egress]}
  - {name: n1, id: 202, id-wide: 202202, role: [ingress, egress]}
`

func namespacesYAML(n int) string {
	var b strings.Builder
	b.WriteString("namespaces:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {id: %d, data: 0xdeadbeef}\n", firstNamespace+i)
	}
	return b.String()
}

func encapsulationsYAML(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "namespaces:\n  - {id: %d}\nencapsulations:\n", namespace)
	for i := range n {
		fmt.Fprintf(
			&b,
			"  - name: subnet %d\n    interface: n1\n    match: {destination: \"2001:db8:2:%x::/64\"}\n    mode: inline\n",
			i,
			firstSubnet+i,
		)
		fmt.Fprintf(&b, "    options: [{trace: {namespace: %d, type: 0xc00000, size: 8}}]\n", namespace)
	}
	return b.String()
}

// runningAgent is an agent in the node's namespace.
type runningAgent struct {
	node     *harness.Node
	instance api.Instance
	command  *exec.Cmd
	client   *api.Client
	ended    chan error
	log      bytes.Buffer
	start    time.Duration // from the start of the process to the first answer
}

// start runs an agent and waits until it answers.
func (f *footprint) start(ctx context.Context, file string) (*runningAgent, error) {
	a := &runningAgent{node: f.node, command: exec.Command(f.program, "agent", "run", "--config", file), ended: make(chan error, 1)}
	a.command.Stdout, a.command.Stderr = &a.log, &a.log
	// The terminal's interrupt is for this program: an agent that it ends leaves
	// its programs attached.
	a.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var started time.Time
	err := harness.InNamespace(f.node.Namespace, func() (err error) {
		if a.instance, err = api.Here(); err != nil {
			return err
		}
		started = time.Now()
		return a.command.Start()
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", f.program, err)
	}
	a.client = api.NewClient(a.instance.Socket())
	go func() { a.ended <- a.command.Wait() }()
	for {
		if _, err := a.client.Status(ctx); err == nil {
			a.start = time.Since(started)
			return a, nil
		} else if !errors.Is(err, api.ErrNoAgent) {
			return nil, a.kill(err)
		}
		select {
		case err := <-a.ended:
			a.ended <- err
			return nil, a.kill(errors.New("it ended at once"))
		case <-time.After(time.Millisecond):
		}
	}
}

// kill ends an agent because of an error, removes what it attached and pinned,
// and adds its output to the error.
func (a *runningAgent) kill(reason error) error {
	end := errors.Join(a.command.Process.Kill(), <-a.ended)
	removed := harness.InNamespace(a.node.Namespace, func() error {
		_, _, err := instances.Remove(a.instance, func(pins string) (instances.Removable, error) {
			return datapath.Open(datapath.Options{PinPath: pins})
		})
		return err
	})
	if errors.Is(reason, context.Canceled) { // the agent did nothing wrong
		return errors.Join(reason, removed)
	}
	errs := []error{reason, end, removed}
	if a.log.Len() > 0 {
		errs = append(errs, errors.New(a.log.String()))
	}
	return errors.Join(errs...)
}

// remove removes what the agent attached, and waits until it ends.
func (a *runningAgent) remove(ctx context.Context) error {
	if _, err := a.client.Stop(ctx, api.Stop{Remove: true}); err != nil {
		return a.kill(err)
	}
	select {
	case err := <-a.ended:
		return err
	case <-ctx.Done():
		return a.kill(ctx.Err())
	}
}

// agent starts an agent, measures it, reloads it and ends it.
func (f *footprint) agent(ctx context.Context, g grown, n int, file string) error {
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	a, err := f.start(ctx, file)
	if err != nil {
		return err
	}
	f.add(numberOf(agentStart, g.name), n, float64(a.start.Nanoseconds()), false)
	resident, err := residentMemory(a.command.Process.Pid)
	if err != nil {
		return a.kill(err)
	}
	f.add(numberOf(agentMemory, g.name), n, resident, true)
	started := time.Now()
	if _, err := a.client.Reload(ctx); err != nil {
		return a.kill(err)
	}
	f.add(numberOf("agent: reload", g.name), n, float64(time.Since(started).Nanoseconds()), false)
	return a.remove(ctx)
}

// idle measures what an agent uses while nothing happens: memory, and processor
// time per second. suffix ends the curves' names.
func (f *footprint) idle(ctx context.Context, suffix, file string) error {
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	a, err := f.start(ctx, file)
	if err != nil {
		return err
	}
	f.add(numberOf(agentStart+suffix, ""), 1, float64(a.start.Nanoseconds()), false)
	select {
	case <-ctx.Done():
		return a.kill(ctx.Err())
	case <-time.After(settlingTime):
	}
	before, err := processorTime(a.command.Process.Pid)
	if err != nil {
		return a.kill(err)
	}
	waited, err := waits(a.command.Process.Pid)
	if err != nil {
		return a.kill(err)
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return a.kill(ctx.Err())
	case <-time.After(idleTime):
	}
	after, err := processorTime(a.command.Process.Pid)
	if err != nil {
		return a.kill(err)
	}
	seconds := time.Since(began).Seconds()
	f.add(numberOf(agentIdle+suffix, ""), 1, float64((after-before).Nanoseconds())/seconds, false)
	switched, err := waits(a.command.Process.Pid)
	if err != nil {
		return a.kill(err)
	}
	f.waits[suffix] = append(f.waits[suffix], float64(switched-waited)/seconds)
	resident, err := residentMemory(a.command.Process.Pid)
	if err != nil {
		return a.kill(err)
	}
	f.add(numberOf(agentIdleMemory+suffix, ""), 1, resident, true)
	return a.remove(ctx)
}

// waits is how often the threads of a process have waited for something. Threads that end leave the sum.
func waits(pid int) (n int, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return 0, err
		}
		_, text, _ := strings.Cut(string(b), "\nvoluntary_ctxt_switches:")
		text, _, _ = strings.Cut(text, "\n")
		one, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		n += one
	}
	return n, nil
}

// processorTime is the run time of all threads of a process.
func processorTime(pid int) (time.Duration, error) {
	const clockOfProcess = 2 // CPUCLOCK_SCHED, of all threads
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|clockOfProcess), &t); err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// residentMemory is a process's resident memory in bytes.
func residentMemory(pid int) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return 1024 * kilobytes, err
		}
	}
	return 0, fmt.Errorf("process %d does not say how much memory it holds", pid)
}
