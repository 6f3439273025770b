// SPDX-License-Identifier: Apache-2.0

package health

import (
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/testnet"
)

func TestKinds(t *testing.T) {
	seen := map[Code]bool{}
	for _, k := range Kinds() {
		if seen[k.Code] || k.Title == "" || k.Severity.rank() < 0 {
			t.Errorf("kind %+v: twice, without title, or of unknown severity", k)
		}
		seen[k.Code] = true
		if w := New(k.Code, "", "text", "cure"); w.Title != k.Title || w.Severity != k.Severity {
			t.Errorf("New(%s) = %+v", k.Code, w)
		}
	}
}

func TestSortAndWorst(t *testing.T) {
	ws := []Warning{New(TCXMissing, "", "", ""), New(MTUTooSmall, "b", "", ""), New(MTUTooSmall, "a", "", ""), New(KernelIOAM6, "z", "", "")}
	Sort(ws)
	var got []string
	for _, w := range ws {
		got = append(got, string(w.Code)+w.Interface)
	}
	want := []string{"kernel_ioam6_enabledz", "mtu_too_smalla", "mtu_too_smallb", "tcx_missing"}
	if !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	if Worst(ws) != Error || Worst(ws[1:]) != Degraded || Worst(nil) != "" {
		t.Errorf("worst of %v: %q, %q, %q", got, Worst(ws), Worst(ws[1:]), Worst(nil))
	}
}

// healthyNode has nothing to warn about; each test spoils one thing.
func healthyNode() Node {
	return Node{
		Clock: Clock{Synchronised: true, TAIOffset: 37 * time.Second},
		Interfaces: []Interface{
			{Name: "eth0", MTU: 1500, Hook: "xdp"},
			{Name: "eth1", MTU: 1620, Hook: "tcx"},
		},
		Encapsulations: []Encapsulation{{Name: "core", Interface: "eth1", Insertion: 120, Destination: netip.MustParseAddr("2001:db8::1")}},
	}
}

func TestCheckNode(t *testing.T) {
	if ws := CheckNode(healthyNode()); len(ws) != 0 {
		t.Fatalf("a healthy node has warnings: %+v", ws)
	}
	for _, tt := range []struct {
		name  string
		spoil func(*Node)
		code  Code
		iface string
		text  string
		cure  string
	}{
		{"kernel fills", func(n *Node) { n.Interfaces[0].KernelIOAM6 = true }, KernelIOAM6, "eth0", "ioam6_enabled is 1", "sysctl -w net/ipv6/conf/eth0/ioam6_enabled=0"},
		{"lro", func(n *Node) { n.Interfaces[1].LRO = true }, LROEnabled, "eth1", "LRO", "ethtool -K eth1 lro off"},
		{"xdp refused", func(n *Node) { n.Interfaces[1].XDPRefused = "EOPNOTSUPP" }, XDPFallback, "eth1", "served by tcx, because native XDP was refused: EOPNOTSUPP", "attach: tcx"},
		{"missing", func(n *Node) { n.Missing = []string{"eth7"} }, InterfaceMissing, "eth7", "does not exist", "create"},
		{"one byte short", func(n *Node) { n.Interfaces[1].MTU = 1619 }, MTUTooSmall, "eth1", "adds 120 bytes, the MTU of eth1 is 1619: packets over 1499 bytes", "mtu 1620"},
		{"host", func(n *Node) { n.Interfaces = n.Interfaces[1:] }, MTUTooSmall, "eth1", "packets over 1500 bytes", "mtu 1740"},
		{"nothing arrives", func(n *Node) {
			n.NoIngress, n.Ends = true, []string{"tunnels to 2001:db8::3", "options of namespace 7"}
		}, DecapUnreached, "", "tunnels to 2001:db8::3, options of namespace 7 cannot end here", "add ingress"},
		{"unknown namespaces", func(n *Node) { n.Encapsulations[0].Unknown = []ioam.NamespaceID{7, 9} }, NamespaceUnfilled, "eth1", "encapsulation core inserts options of namespaces 7, 9, not configured here", "waymark ioam namespace add 7"},
		{"too small", func(n *Node) { n.Encapsulations[0].TooSmall = []ioam.NamespaceID{7} }, TraceTooSmall, "eth1", "encapsulation core inserts traces of namespace 7 that do not hold", "raise their size"},
		{"nine options", func(n *Node) { n.Encapsulations[0].Options = 9 }, OptionsOverLimit, "eth1", "9 options into one header", "max_hbh_opts_number=9"},
		{"below 1280", func(n *Node) { n.Interfaces[1].MTU = 1399 }, MTUBelowMinimum, "eth1", "packets over 1279 bytes", "mtu 1400"},
		{"no route", func(n *Node) { n.Encapsulations[0].NoRoute = "no route" }, TunnelUnroutable, "eth1", "tunnel destination 2001:db8::1: no route", "add a route"},
		{"source elsewhere", func(n *Node) {
			n.Encapsulations[0].Source, n.Encapsulations[0].NotOurs = netip.MustParseAddr("2001:db8::9"), true
		}, PathMTUUnwatched, "eth1", "tunnel source 2001:db8::9 is not an address of this node", "set tunnel.source"},
		{"narrow path", func(n *Node) { n.Encapsulations[0].PathMTU = 1500 }, PathMTULowered, "eth1", "adds 120 bytes, a link on the path to 2001:db8::1 carries 1500: packets over 1380 bytes", "an MTU of 1620"},
		{"unsynchronised", func(n *Node) { n.Clock.Synchronised = false }, ClockUnsynced, "", "STA_UNSYNC", "NTP"},
		{"no tai", func(n *Node) { n.TimestampFormat, n.Clock.TAIOffset = ioam.TimestampPTP, 0 }, TAIOffsetZero, "", "timestamps are UTC", "leapsectz"},
		{"private pins", func(n *Node) { n.PrivatePins = true }, BPFFSPrivate, "", "mount namespace", "ip netns exec"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := healthyNode()
			tt.spoil(&n)
			ws := CheckNode(n)
			if len(ws) != 1 {
				t.Fatalf("%d warnings, want exactly one: %+v", len(ws), ws)
			}
			w := ws[0]
			if w.Code != tt.code || w.Interface != tt.iface || !strings.Contains(w.Text, tt.text) || !strings.Contains(w.Cure, tt.cure) {
				t.Errorf("warning %+v, want %s on %q with %q and cure %q", w, tt.code, tt.iface, tt.text, tt.cure)
			}
		})
	}
}

// Nodes that read one clock agree, right or wrong.
func TestOneClockNeedsNoSynchronisation(t *testing.T) {
	n := healthyNode()
	n.Clock.Synchronised, n.OneClock = false, true
	if ws := CheckNode(n); len(ws) != 0 {
		t.Errorf("warnings: %+v", ws)
	}
}

func healthyKernel() Kernel {
	yes := Support{Yes: true}
	return Kernel{Release: "6.12", Capability: math.MaxUint64, BTF: true, Memlock: 8 << 20,
		Classifier: yes, JIT: yes, XDP: yes, TCX: yes, RingBuffer: yes, TAI: yes}
}

func TestCheckKernel(t *testing.T) {
	for _, c := range CheckKernel(healthyKernel()) {
		if c.State != "ok" || c.Warning != nil {
			t.Errorf("healthy kernel: %+v", c)
		}
	}
	for _, tt := range []struct {
		name  string
		spoil func(*Kernel)
		check string
		state string
		code  Code
	}{
		{"no net admin", func(k *Kernel) { k.Capability &^= 1 << unix.CAP_NET_ADMIN }, "capabilities", "error", CapabilityMissing},
		{"no bpf", func(k *Kernel) { k.Capability = 1 << unix.CAP_NET_ADMIN }, "capabilities", "error", CapabilityMissing},
		{"no raw sockets", func(k *Kernel) { k.Capability &^= 1 << unix.CAP_NET_RAW }, "capabilities", "warning", PathMTUUnwatched},
		{"no classifier", func(k *Kernel) { k.Classifier = Support{} }, "bpf programs", "error", BPFUnusable},
		{"no ring buffer", func(k *Kernel) { k.RingBuffer = Support{} }, "ring buffer", "error", RingBufferMissing},
		{"no tcx", func(k *Kernel) { k.TCX = Support{} }, "tcx", "info", TCXMissing},
		{"no xdp", func(k *Kernel) { k.XDP = Support{} }, "xdp", "info", XDPMissing},
		{"not asked", func(k *Kernel) { k.XDP = Support{Err: unix.EPERM} }, "xdp", "unknown", ""},
		{"no btf", func(k *Kernel) { k.BTF = false }, "btf", "warning", BTFMissing},
		{"jit off", func(k *Kernel) { k.JIT = Support{} }, "bpf jit", "warning", JITDisabled},
		{"jit unknown", func(k *Kernel) { k.JIT = Support{Err: unix.EPERM} }, "bpf jit", "unknown", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := healthyKernel()
			tt.spoil(&k)
			for _, c := range CheckKernel(k) {
				switch {
				case c.Name != tt.check:
					if c.State != "ok" {
						t.Errorf("another check moved: %+v", c)
					}
				case c.State != tt.state, (c.Warning == nil) != (tt.code == ""), c.Warning != nil && c.Warning.Code != tt.code:
					t.Errorf("%+v, want state %s and code %q", c, tt.state, tt.code)
				}
			}
		})
	}
}

// An ordinary user is told what is not known, not something that may be false.
func TestOrdinaryUser(t *testing.T) {
	no := Support{Err: unix.EPERM}
	k := Kernel{Release: "6.12", BTF: true, Memlock: 8 << 20, Classifier: no, JIT: no, XDP: no, TCX: no, RingBuffer: no, TAI: no}
	for _, c := range CheckKernel(k) {
		want, code := "unknown", Code("")
		switch c.Name {
		case "capabilities":
			want, code = "error", CapabilityMissing
		case "kernel", "btf":
			want = "ok"
		}
		if c.State != want || c.Warning == nil != (code == "") || c.Warning != nil && c.Warning.Code != code {
			t.Errorf("%+v; want %s", c, want)
		}
		if text := c.Detail; want == "unknown" && !strings.Contains(text, "run it as root") {
			t.Errorf("%s: %q does not say what to do", c.Name, text)
		}
	}
}

func TestMissingCapabilities(t *testing.T) {
	if m := MissingCapabilities(1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN); len(m) != 0 {
		t.Errorf("CAP_SYS_ADMIN and CAP_NET_ADMIN lack %v", m)
	}
	if m := MissingCapabilities(0); len(m) != 3 {
		t.Errorf("no capability lacks %v, want three", m)
	}
}

// TestProbes asks the kernel that runs the tests: where it ships what the
// product needs, the probes must find it.
func TestProbes(t *testing.T) {
	testnet.NeedRoot(t)
	k := ReadKernel()
	if k.Release == "" {
		t.Error("no kernel release")
	}
	if missing := MissingCapabilities(k.Capability); len(missing) > 0 {
		t.Fatalf("probes need the capabilities %v", missing)
	}
	for name, s := range map[string]Support{"classifier": k.Classifier, "xdp": k.XDP, "ring buffer": k.RingBuffer, "tai": k.TAI} {
		if !s.Yes {
			t.Errorf("%s: %+v, want yes", name, s)
		}
	}
	setting, err := os.ReadFile("/proc/sys/net/core/bpf_jit_enable")
	if err != nil {
		t.Fatal(err)
	}
	if k.JIT.Err != nil || k.JIT.Yes != (strings.TrimSpace(string(setting)) != "0") {
		t.Errorf("bpf_jit_enable is %s, and we say %+v", setting, k.JIT)
	}
	var inside Support
	testnet.Alone(t, func() { inside = ReadKernel().JIT })
	if inside != k.JIT {
		t.Errorf("in a network namespace: %+v, outside %+v", inside, k.JIT)
	}
	if s := probeHelper(progTypeSchedCLS, math.MaxInt32); s.Yes || s.Err != nil {
		t.Errorf("a helper that does not exist: %+v, want a plain no", s)
	}
	if s := probeProgram(math.MaxUint32); s.Yes || s.Err != nil {
		t.Errorf("a program type that does not exist: %+v, want a plain no", s)
	}
}

func TestOwnAddresses(t *testing.T) {
	isOwn := OwnAddresses()
	if isOwn(netip.MustParseAddr("2001:db8::dead")) {
		t.Error("an address for documentation is this machine's")
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if own := netip.MustParsePrefix(a.String()).Addr(); !isOwn(own) {
			t.Errorf("%v is not this machine's", own)
		}
	}
}

func TestReadClock(t *testing.T) {
	c, err := ReadClock()
	if err != nil {
		t.Fatal(err)
	}
	if c.TAIOffset < 0 || c.TAIOffset > time.Hour {
		t.Errorf("TAI − UTC = %v", c.TAIOffset)
	}
}
