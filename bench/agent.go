// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/api"
)

// agentPatience is how long an agent may take to answer, or to end.
const agentPatience = 30 * time.Second

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
		fmt.Fprintf(&b, "  - name: subnet %d\n    interface: n1\n    match: {destination: \"2001:db8:2:%x::/64\"}\n    mode: inline\n", i, firstSubnet+i)
		fmt.Fprintf(&b, "    options: [{trace: {namespace: %d, type: 0xc00000, size: 8}}]\n", namespace)
	}
	return b.String()
}

// agent starts an agent in the node's namespace, looks at it, reloads it and
// takes away what it attached.
func (f *footprint) agent(ctx context.Context, g grown, n int, file string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	command := exec.Command(f.program, "agent", "run", "--config", file)
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	var place api.Place
	var started time.Time
	err = inNamespace(f.node.ns, func() (err error) {
		if place, err = api.Here(); err != nil {
			return err
		}
		started = time.Now()
		return command.Start()
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", f.program, err)
	}
	client := api.NewClient(place.Socket())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	defer func() {
		if err != nil {
			err = errors.Join(err, command.Process.Kill(), <-ended, errors.New(log.String()))
		}
	}()
	for {
		if _, err := client.Status(ctx); err == nil {
			break
		} else if !errors.Is(err, api.ErrNoAgent) {
			return err
		}
		select {
		case err := <-ended:
			ended <- err
			return errors.New("it ended at once")
		case <-time.After(time.Millisecond):
		}
	}
	f.add("agent: start"+by+g.name, n, float64(time.Since(started).Nanoseconds()), false)
	resident, err := residentMemory(command.Process.Pid)
	if err != nil {
		return err
	}
	f.add("agent: resident memory"+by+g.name, n, resident, true)
	started = time.Now()
	if err := client.Reload(ctx); err != nil {
		return err
	}
	f.add("agent: reload"+by+g.name, n, float64(time.Since(started).Nanoseconds()), false)
	if _, err := client.Stop(ctx, api.Stop{Remove: true}); err != nil {
		return err
	}
	select {
	case err := <-ended:
		ended <- err
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// residentMemory is what a process holds in memory, in bytes.
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
