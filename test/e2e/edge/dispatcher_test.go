// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// dispatched is a domain whose middle node shares its eth0 with libxdp. The agent there is started by the tests.
const dispatched = `
name: dispatched
permanent-neighbours: true
nodes:
  - {name: alpha, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: athos
    routes: [{to: "::/0", via: 2001:db8:12::2}]
    agent:
      node: {id: 1}
      interfaces: [{name: eth1, role: [ingress, egress]}]
      namespaces: [{id: 123}]
      encapsulations:
        - {name: traced, interface: eth1, match: {destination-port: 9000}, mode: inline, options: [{trace: {namespace: 123, type: 0xc00000, size: 16}}]}
  - name: porthos
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:12::1}]
  - {name: beta, routes: [{to: "::/0", via: 2001:db8:2::1}]}
links:
  - ends: [{node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}, {node: athos, interface: eth0, addresses: 2001:db8:1::1/64}]
  - mtu: 1700
    ends: [{node: athos, interface: eth1, addresses: 2001:db8:12::1/64}, {node: porthos, interface: eth0, addresses: 2001:db8:12::2/64}]
  - mtu: 1700
    ends: [{node: porthos, interface: eth1, addresses: 2001:db8:2::1/64}, {node: beta, interface: eth0, addresses: 2001:db8:2::2/64}]
`

// middle is porthos' configuration: with auto, a veth that forwards fast prefers native XDP.
func middle(attach string) string {
	return fmt.Sprintf(`
node: {id: 2}
interfaces:
  - {name: eth0, id: 201, role: [ingress, egress], forwarding: fast, attach: %s}
  - {name: eth1, id: 202, role: [ingress, egress]}
namespaces: [{id: 123, remove: true}]
`, attach)
}

// xdpObjects has the objects of Debian's libxdp1.
const xdpObjects = "/usr/lib/*/bpf/"

// neighbour is a node whose eth0 xdp-loader uses, with a BPF file system for libxdp.
type neighbour struct {
	lab      *lab.Lab
	pins     string
	replaces bool // see replacesPrograms
}

// loading is held by one xdp-loader at a time: its lock is of the whole machine, and not waited for.
var loading sync.Mutex

// loader runs xdp-loader, and returns all that it writes.
func (n *neighbour) loader(t *testing.T, args ...string) (string, error) {
	t.Helper()
	loading.Lock()
	defer loading.Unlock()
	script := `export LIBXDP_BPFFS="$1"; shift; exec xdp-loader "$@"`
	out, err := n.lab.Node("porthos").
		Command(t.Context(), "sh", append([]string{"-c", script, "sh", n.pins}, args...)...).CombinedOutput()
	return string(out), err
}

// load puts programs on eth0 as libxdp does.
func (n *neighbour) load(t *testing.T, mode string, objects ...string) (string, error) {
	t.Helper()
	args := []string{"load", "--mode", mode, "eth0"}
	for _, object := range objects {
		args = append(args, xdpObject(t, object))
	}
	return n.loader(t, args...)
}

// xdpObject is the path of an object that comes with libxdp.
func xdpObject(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob(xdpObjects + name)
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s in %s; install xdp-tools (scripts/setup.sh test): %v", name, xdpObjects, err)
	}
	return found[0]
}

// replacesPrograms reports whether the kernel lets one program take the place of another's function, by
// which libxdp's dispatcher calls programs. Some machines refuse all such programs.
func replacesPrograms(t *testing.T) bool {
	t.Helper()
	spec, err := ebpf.LoadCollectionSpec(xdpObject(t, "xdp-dispatcher.o"))
	if err != nil {
		t.Fatal(err)
	}
	programs, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer programs.Close()
	extension := spec.Programs["xdp_pass"].Copy()
	extension.Type, extension.AttachType = ebpf.Extension, ebpf.AttachNone
	extension.AttachTarget, extension.AttachTo = programs.Programs["xdp_dispatcher"], "compat_test"
	p, err := ebpf.NewProgram(extension)
	if err == nil {
		p.Close()
	}
	// Another error comes from the verifier: it leaves out functions that an unfilled dispatcher never calls.
	return !errors.Is(err, unix.EPERM)
}

// raiseDispatched brings the lab up, with a BPF file system that only libxdp uses.
func raiseDispatched(t *testing.T) *neighbour {
	t.Helper()
	if _, err := exec.LookPath("xdp-loader"); err != nil {
		t.Fatalf("%v; install xdp-tools (scripts/setup.sh test)", err)
	}
	n := &neighbour{lab: e2e.RaiseText(t, "dispatched", dispatched), pins: t.TempDir(), replaces: replacesPrograms(t)}
	if err := unix.Mount("bpf", n.pins, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(n.pins, 0); err != nil {
			t.Error(err)
		}
	})
	return n
}

// dispatch puts libxdp's dispatcher on eth0: with two programs in its slots, or without any where the kernel
// cannot call them. libxdp then loads each program alone, and the dispatcher's own object is one.
func (n *neighbour) dispatch(t *testing.T) {
	t.Helper()
	objects := []string{"xdp-dispatcher.o"}
	if n.replaces {
		objects = []string{"xdpfilt_alw_all.o", "xdpfilt_alw_ip.o"}
	}
	if out, err := n.load(t, "native", objects...); err != nil {
		t.Fatalf("xdp-loader load: %v\n%s", err, out)
	}
	status := n.status(t)
	for _, want := range []string{"xdp_dispatcher", "xdpfilt_alw_all", "xdpfilt_alw_ip"} {
		if (n.replaces || want == "xdp_dispatcher") && !strings.Contains(status, want) {
			t.Fatalf("xdp-loader put no %s on eth0:\n%s", want, status)
		}
	}
}

// status is what xdp-loader finds on eth0.
func (n *neighbour) status(t *testing.T) string {
	t.Helper()
	out, err := n.loader(t, "status", "eth0")
	if err != nil {
		t.Fatalf("xdp-loader status: %v\n%s", err, out)
	}
	return out
}

// hook is the state of Waymark's program at ingress of eth0.
func (n *neighbour) hook(t *testing.T) (found api.Hook) {
	t.Helper()
	for _, h := range e2e.StatusInterface(t, n.lab, "porthos", "eth0").Hooks {
		if h.Direction == "ingress" {
			found = h
		}
	}
	return found
}

// awaitHook waits until eth0 is served in a mode, and a program of others in XDP is known, or none is.
func (n *neighbour) awaitHook(t *testing.T, what, mode, before string) {
	t.Helper()
	e2e.Await(t, what, 10*time.Second, func() bool {
		h := n.hook(t)
		named := strings.HasPrefix(strings.Join(h.Before, " "), before+" (xdp, id ")
		return h.Attached && h.InPlace && h.Mode == mode && (before == "" && len(h.Before) == 0 || before != "" && named)
	})
}

// warnings are the texts and cures of porthos' warnings about eth0, by code.
func (n *neighbour) warnings(t *testing.T) map[health.Code]string {
	t.Helper()
	found := make(map[health.Code]string)
	for _, w := range e2e.StatusOf(t, n.lab, "porthos").Warnings {
		if w.Interface == "eth0" {
			found[w.Code] = w.Text + "; " + w.Cure
		}
	}
	return found
}

// checkTraced sends packets through porthos: all arrive, and it completes and removes the trace of each.
func (n *neighbour) checkTraced(t *testing.T, when string) {
	t.Helper()
	const count = 20
	removed := e2e.Keep(t, n.lab, "porthos")
	r, err := n.lab.Send(t.Context(), lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: count, Size: 100, Port: 9000})
	if err != nil || r.Received != count {
		t.Errorf("%s: %d of %d packets arrived: %v", when, r.Received, count, err)
	}
	for _, r := range removed.Read(t, count) {
		if len(r.Nodes) != 2 {
			t.Errorf("%s: porthos removed %s", when, e2e.Line(t, r))
		}
	}
}

// takeOver takes Waymark's program off eth0, as an administrator does who makes room for another one, and puts
// the dispatcher there. The agent stands still meanwhile, or it might put its program back first.
func (n *neighbour) takeOver(t *testing.T) {
	t.Helper()
	program := n.hook(t).Program
	defer e2e.StopAgent(t, n.lab, "porthos")()
	var id link.ID
	for l := new(link.Iterator); l.Next(); {
		if info, err := l.Link.Info(); err == nil && info.XDP() != nil && uint32(info.Program) == program {
			id = info.ID
		}
	}
	l, err := link.NewFromID(id)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Detach(); err != nil {
		t.Fatal(err)
	}
	n.dispatch(t)
}

// checkWarned checks that a warning is there, and what it says.
func (n *neighbour) checkWarned(t *testing.T, code health.Code, words ...string) {
	t.Helper()
	text := n.warnings(t)[code]
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s says %q, want %q in it", code, text, word)
		}
	}
}

// unload takes all programs of libxdp off eth0.
func (n *neighbour) unload(t *testing.T) {
	t.Helper()
	if out, err := n.loader(t, "unload", "--all", "eth0"); err != nil {
		t.Fatalf("xdp-loader unload: %v\n%s", err, out)
	}
}

// Where libxdp's dispatcher has an interface, auto serves it by tc and says which program runs earlier;
// attach: xdp is refused until the dispatcher has gone.
func TestBehindDispatcher(t *testing.T) {
	t.Parallel()
	n := raiseDispatched(t)
	porthos, tc := n.lab.Node("porthos"), string(e2e.TCModes()[0])
	n.dispatch(t)
	if _, err := porthos.StartAgent(t.Context(), []byte(middle("auto"))); err != nil {
		t.Fatal(err)
	}
	n.awaitHook(t, "service behind the dispatcher", tc, "xdp_dispatcher")
	n.checkTraced(t, "behind the dispatcher")
	n.checkWarned(t, health.HookPreceded, "xdp_dispatcher (xdp, id ", "XDP_PASS")
	n.checkWarned(t, health.XDPFallback, "served by "+tc, "another XDP program is there", "set attach: xdp")
	err := porthos.Reconfigure(t.Context(), []byte(middle("xdp")))
	if err == nil || !strings.Contains(err.Error(), "another XDP program is there: remove it, or set attach: tcx") {
		t.Errorf("attach: xdp behind a dispatcher: %v", err)
	}
	n.awaitHook(t, "service as before", tc, "xdp_dispatcher")
	n.checkTraced(t, "after a refused reload")
	if doctor, _ := e2e.In(t, n.lab, "porthos", "doctor", "--verbose", "--wide"); !strings.Contains(doctor, "xdp_dispatcher (xdp, id ") {
		t.Errorf("doctor does not name the dispatcher:\n%s", doctor)
	}
	n.unload(t)
	n.awaitHook(t, "the dispatcher's end", tc, "")
	if err := porthos.Reconfigure(t.Context(), []byte(middle("xdp"))); err != nil {
		t.Errorf("attach: xdp after the dispatcher: %v", err)
	}
	n.awaitHook(t, "service in XDP", "xdp", "")
	n.checkTraced(t, "after the dispatcher")
	if ws := n.warnings(t); ws[health.XDPFallback] != "" || ws[health.HookDetached] != "" {
		t.Errorf("in XDP on request, there are the warnings %v", ws)
	}
}

// checkKept checks that the kernel refuses what libxdp tries with Waymark's program in XDP: to replace it, to
// load another one in generic XDP, and to remove it.
func (n *neighbour) checkKept(t *testing.T) {
	t.Helper()
	n.awaitHook(t, "service in XDP", "xdp", "")
	program := n.hook(t).Program
	for _, mode := range []string{"native", "skb"} {
		if out, err := n.load(t, mode, "xdpfilt_alw_all.o"); err == nil || !strings.Contains(out, "Device or resource busy") {
			t.Errorf("xdp-loader load --mode %s where Waymark is: %v\n%s", mode, err, out)
		}
	}
	if out, err := n.loader(t, "unload", "--all", "eth0"); err == nil || !strings.Contains(out, "Device or resource busy") {
		t.Errorf("xdp-loader unload where Waymark is: %v\n%s", err, out)
	}
	if status := n.status(t); !strings.Contains(status, fmt.Sprint(program)) {
		t.Errorf("program %d is not on eth0 any more:\n%s", program, status)
	}
	n.checkTraced(t, "beside a loader that was refused")
}

// Waymark's native XDP keeps the hook from libxdp. Where someone takes it off and libxdp comes, the agent warns
// within seconds. With auto it serves by tc.
func TestTakenByDispatcher(t *testing.T) {
	t.Parallel()
	n := raiseDispatched(t)
	porthos, tc := n.lab.Node("porthos"), string(e2e.TCModes()[0])
	if _, err := porthos.StartAgent(t.Context(), []byte(middle("auto"))); err != nil {
		t.Fatal(err)
	}
	n.checkKept(t)
	n.takeOver(t)
	n.awaitHook(t, "service behind the dispatcher", tc, "xdp_dispatcher")
	n.checkTraced(t, "after the dispatcher has come")
	n.checkWarned(t, health.HookDetached, "took Waymark's program off eth0 ingress", "it is back in "+tc)
	n.checkWarned(t, health.HookPreceded, "xdp_dispatcher (xdp, id ")
	n.checkWarned(t, health.XDPFallback, "another XDP program is there")
}

// Without another mode, the hook stays empty and counts as that, until the dispatcher goes.
func TestDispatcherInsteadOfXDP(t *testing.T) {
	t.Parallel()
	n := raiseDispatched(t)
	if _, err := n.lab.Node("porthos").StartAgent(t.Context(), []byte(middle("xdp"))); err != nil {
		t.Fatal(err)
	}
	n.awaitHook(t, "service in XDP", "xdp", "")
	n.takeOver(t)
	e2e.Await(t, "the warning", 5*time.Second, func() bool {
		return strings.Contains(n.warnings(t)[health.HookDetached], "it cannot be put back in xdp")
	})
	e2e.Await(t, "the dispatcher's name", 5*time.Second, func() bool { return n.warnings(t)[health.HookPreceded] != "" })
	if h := n.hook(t); h.Attached || h.InPlace || !strings.HasPrefix(strings.Join(h.Before, " "), "xdp_dispatcher (xdp, id ") {
		t.Errorf("with the dispatcher instead of Waymark: %+v", h)
	}
	n.checkWarned(t, health.HookPreceded, "xdp_dispatcher (xdp, id ")
	if text := n.warnings(t)[health.XDPFallback]; text != "" {
		t.Errorf("nothing fell back: %s", text)
	}
	n.unload(t)
	n.awaitHook(t, "service in XDP again", "xdp", "")
	n.checkTraced(t, "after the dispatcher")
	n.checkWarned(t, health.HookDetached, "it is back in xdp since ")
}
