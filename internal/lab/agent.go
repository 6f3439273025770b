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
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/supervisor"
)

// bpfDirectory is where agents pin what must outlive them, each in a directory
// named by its id.
const bpfDirectory = api.Root + "/bpf"

// agentStartTimeout bounds the start of one agent: the kernel verifies its
// programs meanwhile.
var agentStartTimeout = patience.Of(30 * time.Second)

// Agent is a running `waymark agent run` of a node.
type Agent struct {
	Place   api.Place
	Config  string // path of its configuration
	Log     string // path of what it writes
	Process *os.Process
	done    chan struct{}
	err     error
}

// Done is closed when the agent has ended.
func (a *Agent) Done() <-chan struct{} { return a.done }

// Err is how the agent ended; only of use after Done.
func (a *Agent) Err() error { return a.err }

// startAgents starts the agents that the topology describes.
func (l *Lab) startAgents(ctx context.Context) error {
	if l.program == "" {
		return nil
	}
	for _, spec := range l.topology.Nodes {
		if spec.Agent == nil {
			continue
		}
		if _, err := l.nodes[spec.Name].StartAgent(ctx, spec.Agent.Config); err != nil {
			return err
		}
	}
	return nil
}

// agentLog is the file that the lab's own agent of a node writes to.
func (l *Lab) agentLog(node string) string { return filepath.Join(l.directory, node+".log") }

// Place is where the node's agent keeps its files.
func (n *Node) Place() (place api.Place, err error) {
	err = n.Do(func() (err error) {
		place, err = api.Here()
		return err
	})
	return place, err
}

// StartAgent runs the agent in the node with a configuration and waits until
// its local API answers. The agent outlives this process; Down ends it.
func (n *Node) StartAgent(ctx context.Context, configuration []byte) (*Agent, error) {
	if n.lab.program == "" {
		return nil, errors.New("the lab does not know the waymark program; set Options.Program")
	}
	if err := mountBPF(bpfDirectory); err != nil {
		return nil, err
	}
	place, err := n.Place()
	if err != nil {
		return nil, err
	}
	a := &Agent{
		Place:  place,
		Config: filepath.Join(n.lab.directory, n.Name()+".yaml"),
		Log:    n.lab.agentLog(n.Name()),
		done:   make(chan struct{}),
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
			if known.ID == place.ID {
				return
			}
		}
		s.Agents = append(s.Agents, agentRecord{Node: n.Name(), ID: place.ID})
	})
	if err != nil {
		return nil, err
	}
	// A session of its own, so that a terminal's end or Ctrl-C is not the
	// agent's; the session's leader leads its process group, too.
	cmd := n.Command(context.WithoutCancel(ctx), n.lab.program, "agent", "run", "--config", a.Config, "--node-name", n.Name(), "--one-clock")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { // it is not the service that the lab is run by
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

// Reconfigure gives the node's running agent another configuration, which is in
// force when it returns.
func (n *Node) Reconfigure(ctx context.Context, configuration []byte) error {
	place, err := n.Place()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.lab.directory, n.Name()+".yaml"), configuration, 0o644); err != nil {
		return err
	}
	if err := api.NewClient(place.Socket()).Reload(ctx); err != nil {
		return fmt.Errorf("give the agent of %s another configuration: %w", n.Name(), err)
	}
	return nil
}

// await waits until the agent's API answers.
func (a *Agent) await(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, agentStartTimeout)
	defer cancel()
	client := api.NewClient(a.Place.Socket())
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
			return fmt.Errorf("the agent of %s does not answer at %s after %v%s", node, a.Place.Socket(), agentStartTimeout, a.tail())
		}
	}
}

// tail is the end of what the agent wrote.
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

// removeAgent takes away what an agent has left in the kernel and in files, its
// programs first: while somebody keeps the namespace, they would go on.
func (n *Node) removeAgent(ctx context.Context) error {
	place, err := n.Place()
	if err != nil {
		return err
	}
	_, err = os.Stat(place.Dir)
	_, pinned := os.Stat(filepath.Join(bpfDirectory, place.ID))
	if err != nil && pinned != nil {
		return nil
	}
	if n.lab.program != "" {
		ctx, cancel := context.WithTimeout(ctx, agentStopTimeout)
		defer cancel()
		out, err := n.Command(ctx, n.lab.program, "agent", "stop", "--remove").CombinedOutput()
		if err != nil {
			n.lab.log.Warn("what an agent has left was not removed in order", "node", n.Name(), "error", err, "output", string(bytes.TrimSpace(out)))
		}
	}
	return removeAgentFiles(place.ID)
}

// removeAgentFiles removes what may be left of an agent: its namespace goes, so
// nothing else can want it.
func removeAgentFiles(id string) error {
	return errors.Join(
		os.RemoveAll(filepath.Join(bpfDirectory, id)),
		os.RemoveAll(filepath.Join(api.Root, id)),
	)
}

// mountBPF mounts a BPF file system where agents pin what must outlive them.
func mountBPF(path string) error {
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
