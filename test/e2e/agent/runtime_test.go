// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"errors"
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

// The words of iproute2 change what a running agent does to packets, for as
// long as they say.
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
		if err := json.Unmarshal(got.out, &r); err != nil || got.err != nil {
			t.Fatalf("%v, %v: %s", err, got.err, got.out)
		}
		return r
	}
	r := traced()
	if r.Namespace != 124 || len(r.Nodes) != 3 || r.Nodes[0].NamespaceData.Value != 0xcafe0001 || r.Nodes[1].NamespaceData.Value != 0xcafe0002 ||
		r.Nodes[1].Snapshot.Value.Schema != 7 || !strings.HasPrefix(string(r.Nodes[1].Snapshot.Value.Data), "rack 7") || r.Nodes[2].NamespaceData.Valid {
		t.Errorf("trace %+v", r)
	}
	if out := e2e.MustIn(t, l, "athos", "route", "show", "2001:db8:2::2/128"); strings.Contains(out, " tunsrc ") || !strings.Contains(out, " tundst 2001:db8:ff::3 ") {
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

// An interface is served whenever it is there.
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

// A second agent of a namespace is refused, a broken file changes nothing, and
// what a killed agent has left can be removed.
func TestAgentRefusesAndRemoves(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "line"))
	file := filepath.Join(l.Directory(), "porthos.yaml")
	if out, err := e2e.In(t, l, "porthos", "agent", "run", "--config", file); err == nil || !strings.Contains(out, "serves this network namespace already (process ") {
		t.Errorf("a second agent: %v, %s", err, out)
	}

	before := e2e.MustIn(t, l, "porthos", "agent", "config")
	e2e.Rewrite(t, l, "porthos", func(c string) string { return c + "colour: red\nstrict: perhaps\n" })
	out, err := e2e.In(t, l, "porthos", "agent", "reload")
	if err == nil || strings.Count(out, "porthos.yaml:") != 2 || !strings.Contains(out, "colour") || !strings.Contains(out, "perhaps") {
		t.Errorf("a file with two faults: %v, %s", err, out)
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
		t.Error("the program went with the agent")
	}
	if out := e2e.MustIn(t, l, "porthos", "agent", "stop", "--remove"); out != "" {
		t.Errorf("removing what is left says %s", out)
	}
	if attached() {
		t.Error("the program is still there after stop --remove")
	}
	checkNothingThere(t, l, "porthos")
	if out := e2e.MustIn(t, l, "porthos", "agent", "stop", "--remove"); !strings.Contains(out, "none has left anything") {
		t.Errorf("removing nothing says %s", out)
	}

	e2e.Rewrite(t, l, "porthos", func(c string) string {
		return strings.Replace(c, "interfaces:\n", "interfaces:\n  - {name: gone0}\n", 1) + "colour: red\nstrict: true\n"
	})
	out, err = e2e.In(t, l, "porthos", "agent", "run", "--config", file)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if e2e.ExitCode(err) != 1 || len(lines) != 2 || !strings.HasPrefix(lines[0], file+":") || !strings.Contains(lines[0], `no interface "gone0"`) ||
		!strings.HasPrefix(lines[1], file+":") || !strings.Contains(lines[1], "colour") {
		t.Errorf("an agent with a missing interface and an unknown key: %v, %s", err, out)
	}
	if attached() {
		t.Error("an agent with a wrong file has attached a program")
	}
	checkNothingThere(t, l, "porthos")
}

// checkNothingThere wants neither a runtime directory nor pins of a node.
func checkNothingThere(t *testing.T, l *lab.Lab, node string) {
	t.Helper()
	place, err := l.Node(node).Place()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{place.Dir, filepath.Join(api.Root, "bpf", place.ID)} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", path, err)
		}
	}
}
