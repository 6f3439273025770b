// SPDX-License-Identifier: Apache-2.0

// Package lab raises topologies of network namespaces on one machine: nodes
// joined by veth pairs, with addresses, routes, agents and traffic. `waymark
// lab` and the tests use the same code.
//
// Everything is reversible. Up removes what it made when it fails, and Down removes,
// from any process, all that Up and the lab's nodes made.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
)

// DefaultName is the name of a lab for which none is given.
const DefaultName = "waymark"

// Options say how a lab is raised.
type Options struct {
	Name    string // DefaultName when empty; namespaces are called NAME-NODE
	Program string // path of the waymark program; empty: the topology's agents are not started
	Owned   bool   // the lab ends with this process: a later Up of that name removes its remains
	Log     *slog.Logger

	directory string // of all labs; tests use a different one
}

// Lab is a raised topology.
type Lab struct {
	topology  *Topology
	name      string
	program   string
	directory string
	log       *slog.Logger
	nodes     map[string]*Node
}

// Node is one node of a lab.
type Node struct {
	lab    *Lab
	spec   *NodeSpec
	handle netns.NsHandle
}

// Up raises a topology. When it fails, or the context ends before it is done, it
// removes what it had made; a *LeftError in the error reports what could not be
// removed.
func Up(ctx context.Context, t *Topology, o Options) (l *Lab, err error) {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if err := checkName(o.Name, maxLabName); err != nil {
		return nil, fmt.Errorf("lab name %w", err)
	}
	if err := checkPrivilege(); err != nil {
		return nil, err
	}
	l = newLab(t, o)
	s := &state{Name: o.Name, Program: o.Program}
	if o.Owned {
		if id, ok := identify(os.Getpid()); ok {
			s.Owner = &id
		}
	}
	if err := l.claim(ctx, s, o); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				err = ctx.Err() // other errors follow from it
			}
			err = errors.Join(err, l.Down(ctx))
			l = nil
		}
	}()
	if err := l.createNamespaces(ctx); err != nil {
		return l, err
	}
	handles := map[string]netns.NsHandle{}
	for name, n := range l.nodes {
		handles[name] = n.handle
	}
	w, err := newNetwork(t, handles)
	if err != nil {
		return l, err
	}
	defer w.close()
	if err := w.raise(ctx); err != nil {
		return l, err
	}
	return l, l.startAgents(ctx)
}

func newLab(t *Topology, o Options) *Lab {
	if o.directory == "" {
		o.directory = DefaultDirectory
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Lab{
		topology: t, name: o.Name, program: o.Program, log: o.Log,
		directory: filepath.Join(o.directory, o.Name), nodes: map[string]*Node{},
	}
}

// claim takes the name; it first removes a lab whose owner has died.
func (l *Lab) claim(ctx context.Context, s *state, o Options) error {
	err := claim(l.directory, s, l.topology.source)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	taken := problem.New(
		fmt.Sprintf("a lab called %s is already up", l.name),
		fmt.Sprintf("take it down (waymark lab down --name %s) or use another --name", l.name),
	)
	old, rerr := readState(l.directory)
	if rerr != nil || old.Owner == nil || old.Owner.alive() {
		return taken
	}
	dead, err := open(l.name, o)
	if err == nil {
		err = dead.Down(ctx)
	}
	if err != nil {
		return fmt.Errorf("remove the remains of a killed run: %w", err)
	}
	if err := claim(l.directory, s, l.topology.source); err != nil {
		return taken
	}
	return nil
}

func (l *Lab) createNamespaces(ctx context.Context) error {
	for i := range l.topology.Nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		spec := &l.topology.Nodes[i]
		name := l.namespace(spec.Name)
		handle, err := createNamespace(name)
		if err != nil {
			return err
		}
		l.nodes[spec.Name] = &Node{lab: l, spec: spec, handle: handle}
		if err := update(l.directory, func(s *state) { s.Namespaces = append(s.Namespaces, name) }); err != nil {
			return errors.Join(err, removeNamespace(name))
		}
	}
	return nil
}

// checkPrivilege reports early what would fail later with a bare errno.
func checkPrivilege() error {
	if os.Geteuid() != 0 {
		return problem.New("a lab creates network namespaces, which only root may do", "run it as root")
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return fmt.Errorf("read this process's capabilities: %w", err)
	}
	for _, c := range []struct {
		name string
		bit  uint
	}{{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN}, {"CAP_NET_ADMIN", unix.CAP_NET_ADMIN}, {"CAP_NET_RAW", unix.CAP_NET_RAW}} {
		if data[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			return problem.New(
				fmt.Sprintf("this process lacks %s, which a lab needs", c.name),
				"run it as root outside a container, or in a privileged one",
			)
		}
	}
	return nil
}

// Open finds a lab that is up.
func Open(name string) (*Lab, error) { return open(name, Options{Name: name}) }

func open(name string, o Options) (*Lab, error) {
	if err := checkName(name, maxLabName); err != nil {
		return nil, fmt.Errorf("lab name %w", err)
	}
	o.Name = name
	l := newLab(nil, o)
	s, err := readState(l.directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notUp(name, filepath.Dir(l.directory))
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, problem.Wrap(fmt.Errorf("the lab %s belongs to root: %w", name, err), "run it as root")
	}
	if err != nil {
		return nil, err
	}
	source, err := os.ReadFile(filepath.Join(l.directory, topologyFile))
	if err != nil {
		return nil, err
	}
	if l.topology, err = Parse(topologyFile, source); err != nil {
		return nil, err
	}
	l.program = s.Program
	for i := range l.topology.Nodes {
		spec := &l.topology.Nodes[i]
		handle, err := netns.GetFromPath(filepath.Join(namespaceDirectory, l.namespace(spec.Name)))
		if err != nil { // an incomplete lab can still be taken down
			continue
		}
		l.nodes[spec.Name] = &Node{lab: l, spec: spec, handle: handle}
	}
	return l, nil
}

// notUp is the error that a lab is not up, with those that are.
func notUp(name, directory string) error {
	up, err := list(directory)
	if err != nil || len(up) == 0 {
		return problem.New(fmt.Sprintf("no lab called %s is up", name), fmt.Sprintf("raise it: waymark lab up --name %s", name))
	}
	return problem.New(
		fmt.Sprintf("no lab called %s is up", name),
		fmt.Sprintf("give --name with one of %s, or raise it: waymark lab up --name %s", strings.Join(up, ", "), name),
	)
}

// List names the labs that are up.
func List() ([]string, error) { return list(DefaultDirectory) }

func list(directory string) ([]string, error) {
	entries, err := os.ReadDir(directory)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, problem.Wrap(fmt.Errorf("list the labs that are up: %w", err), "run it as root")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	return names, nil
}

// Name is the lab's name.
func (l *Lab) Name() string { return l.name }

// Topology is the lab's topology.
func (l *Lab) Topology() *Topology { return l.topology }

// Directory holds the lab's state, and the agents' configurations and logs.
func (l *Lab) Directory() string { return l.directory }

// Node finds a node; nil when the topology has no node of that name.
func (l *Lab) Node(name string) *Node { return l.nodes[name] }

func (l *Lab) namespace(node string) string { return l.name + "-" + node }

// Name is the node's name in the topology.
func (n *Node) Name() string { return n.spec.Name }

// Namespace is the name of the node's network namespace, as in `ip netns`.
func (n *Node) Namespace() string { return n.lab.namespace(n.spec.Name) }

// Do runs f on a thread in the node's network namespace. Goroutines that f starts are
// not in it.
func (n *Node) Do(f func() error) error { return inNamespace(n.handle, f) }
