// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/patience"
)

// termGrace is how long a process may take to end after SIGTERM.
var termGrace = patience.Of(5 * time.Second)

// Command is a child process in a node. Unlike `ip netns exec`, it changes only the
// network namespace: /sys and the mounts are the machine's.
type Command struct {
	*exec.Cmd
	node *Node
}

// Command prepares a child process in the node. The child leads a process group, which
// is killed as a whole when the context ends or the lab is taken down.
func (n *Node) Command(ctx context.Context, name string, args ...string) *Command {
	c := &Command{Cmd: exec.CommandContext(ctx, name, args...), node: n}
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
	c.WaitDelay = termGrace
	return c
}

// Start starts the child and records it in the lab's state.
func (c *Command) Start() error {
	if err := c.node.Do(c.Cmd.Start); err != nil {
		return fmt.Errorf("start %s in %s: %w", c.Path, c.node.Name(), err)
	}
	if err := c.node.record(c.Process.Pid, c.Args, true); err != nil {
		_ = unix.Kill(-c.Process.Pid, unix.SIGKILL)
		_ = c.Cmd.Wait()
		return err
	}
	return nil
}

// Run starts the child and waits for its end.
func (c *Command) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the child and returns what it wrote to standard output.
func (c *Command) Output() ([]byte, error) {
	var out, diagnostics bytes.Buffer
	c.Stdout = &out
	if c.Stderr == nil {
		c.Stderr = &diagnostics
	}
	err := c.Run()
	if err != nil && diagnostics.Len() > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(diagnostics.String()))
	}
	return out.Bytes(), err
}

// CombinedOutput runs the child and returns what it wrote to standard output
// and standard error.
func (c *Command) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// record adds a process to the state, for Down.
func (n *Node) record(pid int, args []string, group bool) error {
	id, ok := identify(pid)
	if !ok { // it has ended already
		return nil
	}
	return update(n.lab.directory, func(s *state) {
		s.Processes = append(s.Processes, processRecord{
			processID: id, Node: n.Name(), Command: strings.Join(args, " "), Group: group,
		})
	})
}

// Exec replaces this process by a command in the node; it returns only on
// failure. The command has this process's terminal, signals and exit code.
func (n *Node) Exec(args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("find the command: %w", err)
	}
	runtime.LockOSThread() // never unlocked: this thread becomes the command
	if err := netns.Set(n.handle); err != nil {
		return fmt.Errorf("enter the network namespace of %s: %w", n.Name(), err)
	}
	if err := n.record(os.Getpid(), args, false); err != nil {
		return err
	}
	signal.Reset() // an ignored signal would stay ignored in the command
	return fmt.Errorf("start %s: %w", path, unix.Exec(path, args, os.Environ()))
}

// terminate ends the recorded processes except this one, the newest first: with
// SIGTERM, then SIGKILL.
func terminate(ctx context.Context, processes []processRecord) error {
	processes = slices.DeleteFunc(slices.Clone(processes), func(p processRecord) bool { return p.PID == os.Getpid() })
	var faults []error
	for i := len(processes) - 1; i >= 0; i-- {
		if err := processes[i].signal(unix.SIGTERM); err != nil {
			faults = append(faults, err)
		}
	}
	grace, cancel := context.WithTimeout(ctx, termGrace)
	defer cancel()
	for _, p := range processes {
		for p.alive() && sleep(grace, readyPoll) == nil {
			continue
		}
	}
	for _, p := range processes {
		if err := p.signal(unix.SIGKILL); err != nil {
			faults = append(faults, err)
		}
	}
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancelLast()
	for _, p := range processes {
		for p.alive() && sleep(last, readyPoll) == nil {
			continue
		}
	}
	return errors.Join(faults...)
}

// signal signals a process and its group if it is still the recorded one; the
// descriptor keeps its number from being reused meanwhile.
func (p processRecord) signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil { // the process has ended
		return nil
	}
	defer unix.Close(fd)
	if !p.alive() {
		return nil
	}
	if p.Group {
		err = unix.Kill(-p.PID, sig)
	} else {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d (%s): %w", p.PID, p.Command, err)
	}
	return nil
}
