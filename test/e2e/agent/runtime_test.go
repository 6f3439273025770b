// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// Commands in iproute2's syntax change what a running agent does to packets; a
// restart keeps the changes, a reload of the file drops them.
func TestRuntimeChanges(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "line"))
	e2e.MustIn(t, l, "athos", "ioam", "namespace", "add", "124", "data", "0xcafe0001")
	e2e.MustIn(t, l, "aramis", "ioam", "namespace", "add", "124")
	e2e.MustIn(t, l, "porthos", "ioam", "namespace", "add", "124", "data", "0xcafe0002")
	e2e.MustIn(t, l, "porthos", "ioam", "schema", "add", "7", "rack 7")
	e2e.MustIn(t, l, "porthos", "ioam", "namespace", "set", "124", "schema", "7")
	// The longer prefix wins over the configuration's own rule. Without
	// tunsrc, the agent chooses the source.
	e2e.MustIn(t, l, "athos", "route", "add", "2001:db8:2::2", "encap", "ioam6", "mode", "encap", "tundst", "2001:db8:ff::3",
		"trace", "prealloc", "type", "0x840002", "ns", "124", "size", "48", "dev", "eth1")

	traced := func() (r record.Trace) {
		t.Helper()
		observer := l.Node("aramis").Command(t.Context(), e2e.Program, "observe", "--json", "--count", "1")
		type result struct {
			out []byte
			err error
		}
		done := make(chan result, 1)
		go func() {
			out, err := observer.Output()
			done <- result{out, err}
		}()
		e2e.Await(t, "the observer", 5*time.Second, func() bool { return e2e.StatusOf(t, l, "aramis").Records.Observers == 1 })
		if _, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: 1, Size: 100, Port: 9000}); err != nil {
			t.Fatal(err)
		}
		got := <-done
		if err := record.Unmarshal(got.out, &r); err != nil || got.err != nil {
			t.Fatalf("%v, %v: %s", err, got.err, got.out)
		}
		return r
	}
	r := traced()
	if r.Namespace != 124 || len(r.Nodes) != 3 || r.Nodes[0].NamespaceData.Value != 0xcafe0001 ||
		r.Nodes[1].NamespaceData.Value != 0xcafe0002 ||
		r.Nodes[1].Snapshot.Value.Schema != 7 || !strings.HasPrefix(string(r.Nodes[1].Snapshot.Value.Data), "rack 7") ||
		r.Nodes[2].NamespaceData.Valid {
		t.Errorf("trace %+v", r)
	}
	if out := e2e.MustIn(t, l, "athos", "route", "show", "2001:db8:2::2/128"); strings.Contains(out, " tunsrc ") ||
		!strings.Contains(out, " tundst 2001:db8:ff::3 ") {
		t.Errorf("the source is the host's to choose, so del and add must not name it: %s", out)
	}

	e2e.Restart(t, l, "athos", syscall.SIGKILL)
	if r := traced(); r.Namespace != 124 {
		t.Errorf("namespace %d after kill and restart, want 124 still", r.Namespace)
	}
	e2e.MustIn(t, l, "athos", "route", "del", "2001:db8:2::2")
	if r := traced(); r.Namespace != 123 {
		t.Errorf("namespace %d after the rule was deleted, want the file's 123", r.Namespace)
	}
	if !e2e.StatusOf(t, l, "athos").Modified {
		t.Error("status does not say that namespace 124 is a runtime change")
	}
	e2e.MustIn(t, l, "athos", "agent", "reload")
	if s := e2e.StatusOf(t, l, "athos"); s.Modified || len(s.Namespaces) != 1 {
		t.Errorf("after a reload: modified %v, namespaces %+v", s.Modified, s.Namespaces)
	}
}

// An interface is served whenever it exists.
func TestInterfacesComeAndGo(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "line"))
	node := l.Node("porthos")
	e2e.Rewrite(t, l, "porthos", func(c string) string {
		return strings.Replace(c, "interfaces:\n", "interfaces:\n  - {name: late0, id: 299, id-wide: 299299, role: [ingress, egress]}\n", 1)
	})
	e2e.MustIn(t, l, "porthos", "agent", "reload")
	missing := func() bool {
		s := e2e.StatusOf(t, l, "porthos")
		for _, w := range s.Warnings {
			if w.Code == health.InterfaceMissing && w.Interface == "late0" {
				return e2e.StatusInterface(t, l, "porthos", "late0").Index == 0
			}
		}
		return false
	}
	if !missing() {
		t.Fatalf("late0 is not missing: %+v", e2e.StatusOf(t, l, "porthos").Warnings)
	}
	served := uint32(0)
	for range 2 { // the second time with another index
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "late0"}, PeerName: "late1"}
		if err := node.Do(func() error { return netlink.LinkAdd(link) }); err != nil {
			t.Fatal(err)
		}
		e2e.Await(t, "late0 is served", 5*time.Second, func() bool {
			i := e2e.StatusInterface(t, l, "porthos", "late0")
			return i.Index != 0 && i.Index != served && i.IngressHook != "" && i.EgressHook != ""
		})
		served = e2e.StatusInterface(t, l, "porthos", "late0").Index
		if err := node.Do(func() error { return netlink.LinkDel(link) }); err != nil {
			t.Fatal(err)
		}
		e2e.Await(t, "late0 is missing", 5*time.Second, missing)
	}
	if before := e2e.StatusInterface(t, l, "porthos", "eth0"); before.IngressHook == "" {
		t.Errorf("eth0 is no longer served: %+v", before)
	}
}

// A second agent in a namespace is refused, a broken file changes nothing, and
// what a killed agent left behind can be removed.
func TestAgentRefusesAndRemoves(t *testing.T) {
	t.Parallel()
	top := e2e.Builtin(t, "line")
	e2e.Reconfigure(t, top, "porthos", ", role:", ", attach: xdp, role:")
	l := e2e.Raise(t, top)
	file := filepath.Join(l.Directory(), "porthos.yaml")
	if out, err := e2e.In(t, l, "porthos", "agent", "run", "--config", file); err == nil ||
		!strings.Contains(out, "serves this network namespace already (process ") {
		t.Errorf("a second agent: %v, %s", err, out)
	}

	before := e2e.MustIn(t, l, "porthos", "agent", "config")
	e2e.Rewrite(t, l, "porthos", func(c string) string { return c + "colour: red\nstrict: perhaps\n" })
	out, err := e2e.In(t, l, "porthos", "agent", "reload")
	if err == nil || strings.Count(out, "porthos.yaml:") != 2 || !strings.Contains(out, "colour") || !strings.Contains(out, "perhaps") {
		t.Errorf("a file with two errors: %v, %s", err, out)
	}
	if after := e2e.MustIn(t, l, "porthos", "agent", "config"); after != before {
		t.Errorf("a broken file changed what runs:\n%s", after)
	}

	attached := func() bool {
		var xdp bool
		err := l.Node("porthos").Do(func() error {
			link, err := netlink.LinkByName("eth0")
			if err == nil {
				xdp = link.Attrs().Xdp != nil && link.Attrs().Xdp.Attached
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return xdp
	}
	if !attached() {
		t.Fatal("no native XDP program on a veth")
	}
	pid := e2e.AgentProcess(t, l, "porthos")
	e2e.SignalAgent(t, l, "porthos", syscall.SIGKILL)
	e2e.Await(t, "the agent's end", 10*time.Second, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	if out, err := e2e.In(t, l, "porthos", "status"); err == nil || !strings.Contains(out, "no agent runs in this network namespace") {
		t.Errorf("status of a killed agent: %v, %s", err, out)
	}
	if !attached() {
		t.Error("the program disappeared with the agent")
	}
	if out := e2e.MustIn(t, l, "porthos", "agent", "stop", "--remove"); out != "" {
		t.Errorf("stop --remove after a kill says %s", out)
	}
	if attached() {
		t.Error("the program is still there after stop --remove")
	}
	checkNothingThere(t, l, "porthos")
	if out := e2e.MustIn(t, l, "porthos", "agent", "stop", "--remove"); !strings.Contains(out, "none has left anything") {
		t.Errorf("stop --remove with nothing left says %s", out)
	}

	e2e.Rewrite(t, l, "porthos", func(c string) string {
		return strings.Replace(c, "interfaces:\n", "interfaces:\n  - {name: gone0}\n", 1) + "colour: red\nstrict: true\n"
	})
	out, err = e2e.In(t, l, "porthos", "agent", "run", "--config", file)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if e2e.ExitCode(err) != 1 || len(lines) != 2 || !strings.HasPrefix(lines[0], file+":") ||
		!strings.Contains(lines[0], `no interface "gone0"`) ||
		!strings.HasPrefix(lines[1], file+":") || !strings.Contains(lines[1], "colour") {
		t.Errorf("a start with a missing interface and an unknown key: %v, %s", err, out)
	}
	if attached() {
		t.Error("an agent with a wrong file has attached a program")
	}
	checkNothingThere(t, l, "porthos")
}

// checkNothingThere checks that a node has neither a runtime directory nor pins.
func checkNothingThere(t *testing.T, l *lab.Lab, node string) {
	t.Helper()
	instance, err := l.Node(node).Instance()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{instance.Dir, filepath.Join(api.Root, "bpf", instance.ID)} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s exists: %v", path, err)
		}
	}
}

// An agent that lacks a capability says which one and what to do, and leaves
// nothing.
func TestStartWithoutCapabilities(t *testing.T) {
	t.Parallel()
	l := e2e.RaiseText(t, "chain", e2e.Chain)
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte("interfaces: [{name: eth0, role: [ingress, egress]}]\nmetrics: {listen: none}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const cure = "run it as root with CAP_NET_ADMIN, CAP_NET_BIND_SERVICE, CAP_NET_RAW and CAP_SYS_ADMIN, " +
		"or give it these with AmbientCapabilities and CapabilityBoundingSet in its systemd unit\n"
	for lost, want := range map[string]string{
		"-sys_admin": "lacks CAP_SYS_ADMIN (to mount the BPF file system and open BPF maps and programs by their id)",
		"-net_admin": "lacks CAP_NET_ADMIN (to attach programs to interfaces)",
	} {
		without := []string{"--bounding-set", lost, "--inh-caps", "-all", e2e.Program}
		out, err := l.Node("router").Command(t.Context(), "setpriv", append(without, "agent", "run", "--config", file)...).CombinedOutput()
		if err == nil || string(out) != "waymark: the agent "+want+"; "+cure {
			t.Errorf("without %s: %v, %q; want %q", lost, err, out, want)
		}
		out, err = l.Node("router").Command(t.Context(), "setpriv", append(without, "doctor", "--wide")...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "\n  this process "+want+": it can neither run an agent") ||
			!strings.Contains(string(out), "\n  cure: "+cure) {
			t.Errorf("doctor without %s: %v, %s", lost, err, out)
		}
	}
	instance, err := l.Node("router").Instance()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{instance.Socket(), filepath.Join(api.Root, "bpf", instance.ID)} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was left: %v", path, err)
		}
	}
	if out, err := e2e.In(t, l, "router", "agent", "stop", "--remove"); err != nil {
		t.Errorf("%v, %s", err, out)
	}
}

// Agents in several namespaces of one machine do not affect each other: by
// default the command line talks to the agent of its own namespace, a change to
// one agent reaches no other, and where no agent runs, none is found.
func TestAgentsOfNamespacesNeverMeet(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "line"))
	nodes := []string{"athos", "porthos", "aramis"}
	check := func(with string) {
		t.Helper()
		pids := map[int]string{}
		for i, node := range nodes {
			s := e2e.StatusOf(t, l, node)
			pid := e2e.AgentProcess(t, l, node)
			if s.Node.ID != uint32(i+1) || s.PID != pid || pids[pid] != "" {
				t.Errorf("%s is answered by node %d, process %d; want %d, %d", node, s.Node.ID, s.PID, i+1, pid)
			}
			pids[pid] = node
			want := 1
			if node == with {
				want = 2
			}
			if len(s.Namespaces) != want || s.Modified != (node == with) {
				t.Errorf("%s has the namespaces %+v, modified %v; only %q was given another", node, s.Namespaces, s.Modified, with)
			}
		}
	}
	check("")
	e2e.MustIn(t, l, "porthos", "ioam", "namespace", "add", "200")
	check("porthos")
	e2e.MustIn(t, l, "athos", "agent", "reload")
	check("porthos")
	for _, args := range [][]string{{"status"}, {"agent", "reload"}, {"agent", "stop"}, {"ioam", "namespace", "add", "201"}} {
		if out, err := e2e.In(t, l, "alpha", args...); err == nil || !strings.Contains(out, "no agent runs in this network namespace") {
			t.Errorf("%s in alpha: %v, %s", strings.Join(args, " "), err, out)
		}
	}
	check("porthos")
	e2e.MustIn(t, l, "porthos", "agent", "stop", "--remove")
	for _, node := range []string{"athos", "aramis"} {
		if i := e2e.StatusInterface(t, l, node, "eth0"); i.IngressHook == "" || i.EgressHook == "" {
			t.Errorf("%s no longer serves eth0 after the end of porthos's agent: %+v", node, i)
		}
	}
}
