// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/supervisor"
)

// bpfDirectory is where agents pin what must outlive them, each in a directory
// named by its id.
const bpfDirectory = api.Root + "/bpf"

// agentStartTimeout bounds the start of one agent, while the kernel verifies its
// programs.
var agentStartTimeout = patience.Of(30 * time.Second)

// Agent is a running `waymark agent run` of a node.
type Agent struct {
	Instance api.Instance
	Config   string // path of its configuration
	Log      string // path of its log
	Process  *os.Process
	done     chan struct{}
	err      error
}

// Done is closed when the agent has ended.
func (a *Agent) Done() <-chan struct{} { return a.done }

// Err is how the agent ended; it is valid after Done.
func (a *Agent) Err() error { return a.err }

// startAgents starts the topology's agents, all at once: each waits for the kernel to
// verify its programs.
func (l *Lab) startAgents(ctx context.Context) error {
	if l.program == "" {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, spec := range l.topology.Nodes {
		if spec.Agent == nil {
			continue
		}
		group.Go(func() error {
			_, err := l.nodes[spec.Name].StartAgent(ctx, spec.Agent.Config)
			return err
		})
	}
	return group.Wait()
}

// agentLog is the log file of the lab's own agent of a node.
func (l *Lab) agentLog(node string) string { return filepath.Join(l.directory, node+".log") }

// Instance is that of the node's agent.
func (n *Node) Instance() (instance api.Instance, err error) {
	err = n.Do(func() (err error) {
		instance, err = api.Here()
		return err
	})
	return instance, err
}

// StartAgent runs the agent in the node with a configuration and waits until
// its local API answers. The agent outlives this process; Down ends it.
func (n *Node) StartAgent(ctx context.Context, configuration []byte) (*Agent, error) {
	if n.lab.program == "" {
		return nil, problem.New("the lab does not know the waymark program", "set Options.Program")
	}
	if err := mountBPF(bpfDirectory); err != nil {
		return nil, err
	}
	instance, err := n.Instance()
	if err != nil {
		return nil, err
	}
	a := &Agent{
		Instance: instance,
		Config:   filepath.Join(n.lab.directory, n.Name()+".yaml"),
		Log:      n.lab.agentLog(n.Name()),
		done:     make(chan struct{}),
	}
	if err := os.WriteFile(a.Config, configuration, 0o644); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(a.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	err = update(n.lab.directory, func(s *state) {
		for _, known := range s.Agents {
			if known.ID == instance.ID {
				return
			}
		}
		s.Agents = append(s.Agents, agentRecord{Node: n.Name(), ID: instance.ID})
	})
	if err != nil {
		return nil, err
	}
	// In its own session, the agent does not get a terminal's hangup or Ctrl-C; it also
	// leads its process group.
	cmd := n.Command(context.WithoutCancel(ctx), n.lab.program, "agent", "run", "--config", a.Config, "--node-name", n.Name(), "--one-clock")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { // the agent is not the service that runs the lab
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(supervisor.Environment, name)
	})
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	a.Process = cmd.Process
	go func() {
		a.err = cmd.Wait()
		close(a.done)
	}()
	n.lab.log.Info("agent started", "node", n.Name(), "pid", cmd.Process.Pid)
	return a, a.await(ctx, n.Name())
}

// Reconfigure gives the node's running agent another configuration, which is in force
// on return.
func (n *Node) Reconfigure(ctx context.Context, configuration []byte) error {
	instance, err := n.Instance()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.lab.directory, n.Name()+".yaml"), configuration, 0o644); err != nil {
		return err
	}
	if _, err := api.NewClient(instance.Socket()).Reload(ctx); err != nil {
		return fmt.Errorf("change the configuration of the agent of %s: %w", n.Name(), err)
	}
	return nil
}

// await waits until the agent's API answers.
func (a *Agent) await(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, agentStartTimeout)
	defer cancel()
	client := api.NewClient(a.Instance.Socket())
	for {
		call, cancel := context.WithTimeout(ctx, patience.Of(time.Second))
		_, err := client.Status(call)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-a.done:
			return fmt.Errorf("the agent of %s ended at once (%w)%s", node, a.err, a.tail())
		default:
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return fmt.Errorf("the agent of %s does not answer at %s after %v%s", node, a.Instance.Socket(), agentStartTimeout, a.tail())
		}
	}
}

// tail is the end of the agent's output.
func (a *Agent) tail() string {
	const limit = 2000
	text, err := os.ReadFile(a.Log)
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return "; it wrote nothing"
	}
	if len(text) > limit {
		text = text[len(text)-limit:]
	}
	return "; it wrote:\n" + string(bytes.TrimSpace(text))
}

// removeAgent removes the state of an agent in the kernel and in files, its programs
// first: they would run as long as the namespace is in use.
func (n *Node) removeAgent(ctx context.Context) error {
	instance, err := n.Instance()
	if err != nil {
		return err
	}
	_, err = os.Stat(instance.Dir)
	_, pinned := os.Stat(filepath.Join(bpfDirectory, instance.ID))
	if err != nil && pinned != nil {
		return nil
	}
	if n.lab.program != "" {
		ctx, cancel := context.WithTimeout(ctx, agentStopTimeout)
		defer cancel()
		out, err := n.Command(ctx, n.lab.program, "agent", "stop", "--remove").CombinedOutput()
		if err != nil {
			n.lab.log.Warn("the state of an agent was not removed in order", "node", n.Name(), "error", err, "output", string(bytes.TrimSpace(out)))
		}
	}
	return removeAgentFiles(instance.ID)
}

// removeAgentFiles removes what may be left of an agent. Its namespace is removed too,
// so nothing else needs it.
func removeAgentFiles(id string) error {
	return errors.Join(
		os.RemoveAll(filepath.Join(bpfDirectory, id)),
		os.RemoveAll(filepath.Join(api.Root, id)),
	)
}

var mounting sync.Mutex // serializes agents that start at the same time

// mountBPF mounts a BPF file system for the agents' pins.
func mountBPF(path string) error {
	mounting.Lock()
	defer mounting.Unlock()
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if fs.Type == unix.BPF_FS_MAGIC {
		return nil
	}
	if err := unix.Mount("bpf", path, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return fmt.Errorf("mount a BPF file system at %s: %w (needs CAP_SYS_ADMIN)", path, err)
	}
	return nil
}
