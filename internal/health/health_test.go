// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"io/fs"
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

// healthyNode has nothing to warn about; each test breaks one thing.
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
		{"down", func(n *Node) { n.Interfaces[0].Down = true }, InterfaceDown, "eth0", "eth0 is served and administratively down", "ip link set eth0 up"},
		{"no carrier", func(n *Node) { n.Interfaces[1].NoCarrier = true }, InterfaceDown, "eth1", "has no carrier", "check its cable"},
		{"lro", func(n *Node) { n.Interfaces[1].LRO = true }, LROEnabled, "eth1", "LRO", "ethtool -K eth1 lro off"},
		{"filled before GRO", func(n *Node) { n.Interfaces[0].GRO, n.Interfaces[0].Fills = true, true }, OrderAtRisk, "eth0", "fills traces in native XDP, before receive offload", "attach: tcx"},
		{"filled before GRO, another namespace removed", func(n *Node) {
			n.Interfaces[0].GRO, n.Interfaces[0].Fills, n.Interfaces[0].Removes, n.Interfaces[0].Keeps = true, true, true, true
		}, OrderAtRisk, "eth0", "removes headers of one namespace and fills traces of another", "forwarding: fast"},
		{"segments one by one, GRO off", func(n *Node) { n.Interfaces[1].Differs = true }, OrderAtRisk, "eth1", "get headers that differ one by one", "ethtool -K eth1 gro on"},
		{"segments one by one, fast", func(n *Node) {
			n.Interfaces[1].GRO, n.Interfaces[1].Forwards, n.Interfaces[1].Differs = true, true, true
			n.Interfaces[1].Hook = "xdp"
		}, OrderAtRisk, "eth1", "forwards fast", "flows: 1/n"},
		{"removed after GRO", func(n *Node) { n.Interfaces[1].GRO, n.Interfaces[1].Removes = true, true }, OrderAtRisk, "eth1", "removes headers in tc, after receive offload", "ethtool -K eth1 gro off"},
		{"xdp on a veth", func(n *Node) { n.Interfaces[0].Veth = true }, XDPCopies, "eth0", "a veth with native XDP", "set attach: tcx"},
		{"removed after GRO on a veth", func(n *Node) { i := &n.Interfaces[1]; i.GRO, i.Removes, i.Veth = true, true, true }, OrderAtRisk, "eth1", "removes headers in tc", "ethtool -K eth1 gro off"},
		{"xdp refused", func(n *Node) { n.Interfaces[1].XDPRefused = "EOPNOTSUPP" }, XDPFallback, "eth1", "served by tcx, because native XDP was refused: EOPNOTSUPP", "attach: tcx"},
		{"missing", func(n *Node) { n.Missing = []MissingInterface{{Name: "eth7"}} }, InterfaceMissing, "eth7", "does not exist", "create"},
		{"missing edge", func(n *Node) { n.Missing = []MissingInterface{{"eth7", "drop"}} }, InterfaceMissing, "eth7", "the edge of the domain is open", "correct its name"},
		{"one byte short", func(n *Node) { n.Interfaces[1].MTU = 1619 }, MTUTooSmall, "eth1", "adds 120 bytes, the MTU of eth1 is 1619: packets over 1499 bytes", "mtu 1620"},
		{"host", func(n *Node) { n.Interfaces = n.Interfaces[1:] }, MTUTooSmall, "eth1", "packets over 1500 bytes", "mtu 1740"},
		{"nothing arrives", func(n *Node) {
			n.NoIngress, n.Ends = true, []string{"tunnels to 2001:db8::3", "options of namespace 7"}
		}, DecapUnreached, "", "tunnels to 2001:db8::3, options of namespace 7 cannot end here", "add ingress"},
		{"unknown namespaces", func(n *Node) { n.Encapsulations[0].Unknown = []ioam.NamespaceID{7, 9} }, NamespaceUnfilled, "eth1", "encapsulation core inserts options of namespaces 7, 9, not configured here", "waymark ioam namespace add 7"},
		{"unknown namespaces in a tunnel", func(n *Node) { n.Encapsulations[0].Unknown = []ioam.NamespaceID{7} }, NamespaceUnfilled, "eth1", "a tunnel's end that knows none of their namespaces", "correct the namespace"},
		{"too small", func(n *Node) { n.Encapsulations[0].TooSmall = []ioam.NamespaceID{7} }, TraceTooSmall, "eth1", "encapsulation core inserts traces of namespace 7 that are too small", "raise their size"},
		{"nine options", func(n *Node) { n.Encapsulations[0].Options = 9 }, OptionsOverLimit, "eth1", "9 options into one header", "max_hbh_opts_number=9"},
		{"below 1280", func(n *Node) { n.Interfaces[1].MTU = 1399 }, MTUBelowMinimum, "eth1", "packets over 1279 bytes", "mtu 1400"},
		{"no route", func(n *Node) { n.Encapsulations[0].NoRoute = "no route" }, TunnelUnroutable, "eth1", "tunnel destination 2001:db8::1: no route", "add a route"},
		{"source elsewhere", func(n *Node) {
			n.Encapsulations[0].Source, n.Encapsulations[0].NotOurs = netip.MustParseAddr("2001:db8::9"), true
		}, PathMTUUnwatched, "eth1", "tunnel source 2001:db8::9 is not an address of this node", "set tunnel.source"},
		{"narrow path", func(n *Node) { n.Encapsulations[0].PathMTU = 1500 }, PathMTULowered, "eth1", "adds 120 bytes, the path to 2001:db8::1 carries 1500: packets over 1380 bytes", "an MTU of 1620"},
		{"narrow path, until", func(n *Node) {
			n.Encapsulations[0].PathMTU, n.Encapsulations[0].PathUntil = 1500, time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC)
		}, PathMTULowered, "eth1", "next at 2026-11-24T01:02:03Z; this warning stays until then", "an MTU of 1620"},
		{"unsynchronised", func(n *Node) { n.Clock.Synchronised = false }, ClockUnsynced, "", "STA_UNSYNC", "NTP"},
		{"unsynchronised, with proofs", func(n *Node) { n.Clock.Synchronised, n.Numbers = false, true }, ClockUnsynced, "", "pot_too_old", "wait until"},
		{"no tai", func(n *Node) { n.TimestampFormat, n.Clock.TAIOffset = ioam.TimestampPTP, 0 }, TAIOffsetZero, "", "timestamps are UTC", "leapsectz"},
		{"private pins", func(n *Node) { n.PrivatePins = true }, BPFFSPrivate, "", "mount namespace", "ip netns exec"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := healthyNode()
			tt.spoil(&n)
			ws := CheckNode(n)
			checkLength(t, ws)
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

// checkLength checks that a warning is read in one breath: what is wrong, what happens, what
// to type.
func checkLength(t *testing.T, ws []Warning) {
	t.Helper()
	const most = 60
	for _, w := range ws {
		if n := len(strings.Fields(w.Text + " " + w.Cure)); n > most {
			t.Errorf("%s has %d words, want at most %d: %s\n%s", w.Code, n, most, w.Text, w.Cure)
		}
	}
}

// The warnings of refused packets name the list that refuses them, and what to type.
func TestRefusedTunnels(t *testing.T) {
	end := Decapsulation{Destination: netip.MustParseAddr("2001:db8:ff::3")}
	ws := RefusedTunnels([]Decapsulation{end}, Refusals{WrongSource: 20, WithoutIOAM: 20, Decapsulated: 10})
	checkLength(t, ws)
	if len(ws) != 2 || !strings.Contains(ws[0].Cure, "add ADDR source PREFIX") ||
		!strings.Contains(ws[1].Cure, "waymark ioam namespace add ID") {
		t.Errorf("%+v", ws)
	}
	for _, atEnd := range []bool{false, true} {
		checkLength(t, []Warning{RefusedByNode(netip.MustParseAddr("2001:db8:12::2"), end.Destination, atEnd)})
	}
}

// Order is kept where GRO is off, where headers are removed before it, or filled after it.
func TestOrderIsKept(t *testing.T) {
	for _, i := range []Interface{
		{Name: "eth0", Hook: "xdp", Fills: true}, {Name: "eth0", Hook: "tcx", Removes: true},
		{Name: "eth0", Hook: "xdp", GRO: true, Fills: true, Removes: true}, {Name: "eth0", Hook: "xdp", GRO: true},
		{Name: "eth0", Hook: "tcx", GRO: true, Fills: true}, {Name: "eth0", Hook: "clsact", GRO: true},
		{Name: "eth0", Hook: "tcx", GRO: true, Differs: true}, {Name: "eth0", Hook: "tcx", Veth: true, Differs: true}, {Name: "eth0", Hook: "xdp", Forwards: true},
		{Name: "eth0", Hook: "tcx", GRO: true, Forwards: true, Differs: true},
	} {
		if ws := order(i); len(ws) != 0 {
			t.Errorf("%+v: %+v", i, ws)
		}
	}
}

// Nodes that read the same clock agree, whether it is right or wrong.
func TestOneClockNeedsNoSynchronisation(t *testing.T) {
	n := healthyNode()
	n.Clock.Synchronised, n.OneClock = false, true
	if ws := CheckNode(n); len(ws) != 0 {
		t.Errorf("warnings: %+v", ws)
	}
}

func healthyKernel() Kernel {
	yes := Support{Yes: true}
	return Kernel{Release: "6.12", Capability: math.MaxUint64, FreePorts: 1024, BTF: true, Memlock: 8 << 20,
		Classifier: yes, JIT: yes, XDP: yes, TCX: yes, RingBuffer: yes, TAI: yes, Segments: yes}
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
		{"no sys admin", func(k *Kernel) { k.Capability &^= 1 << unix.CAP_SYS_ADMIN }, "capabilities", "error", CapabilityMissing},
		{"no raw sockets", func(k *Kernel) { k.Capability &^= 1 << unix.CAP_NET_RAW }, "capabilities", "warning", PathMTUUnwatched},
		{"no low ports", func(k *Kernel) { k.Capability &^= 1 << unix.CAP_NET_BIND_SERVICE }, "capabilities", "hint", CapabilityMissing},
		{"no low ports, above STAMP's", func(k *Kernel) { k.Capability, k.FreePorts = k.Capability&^(1<<unix.CAP_NET_BIND_SERVICE), 863 },
			"capabilities", "hint", CapabilityMissing},
		{"all ports are free", func(k *Kernel) { k.Capability, k.FreePorts = k.Capability&^(1<<unix.CAP_NET_BIND_SERVICE), 862 }, "capabilities", "ok", ""},
		{"no classifier", func(k *Kernel) { k.Classifier = Support{} }, "bpf programs", "error", BPFUnusable},
		{"no ring buffer", func(k *Kernel) { k.RingBuffer = Support{} }, "ring buffer", "error", RingBufferMissing},
		{"no tcx", func(k *Kernel) { k.TCX, k.Clsact = Support{}, Support{Yes: true} }, "tcx", "info", TCXMissing},
		{"no clsact", func(k *Kernel) { k.TCX, k.Clsact = Support{}, Support{} }, "clsact", "error", ClsactMissing},
		{"no xdp", func(k *Kernel) { k.XDP = Support{} }, "xdp", "info", XDPMissing},
		{"no segment routing", func(k *Kernel) { k.Segments = Support{} }, "srv6", "info", SegmentsMissing},
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
					// Clsact is asked for only where tcx is missing.
					if c.State != "ok" && (c.Name != "tcx" || tt.check != "clsact") {
						t.Errorf("another check changed: %+v", c)
					}
				case c.State != tt.state, (c.Warning == nil) != (tt.code == ""), c.Warning != nil && c.Warning.Code != tt.code:
					t.Errorf("%+v, want state %s and code %q", c, tt.state, tt.code)
				}
			}
		})
	}
}

// An ordinary user is told what is unknown, not something that may be false.
func TestOrdinaryUser(t *testing.T) {
	no := Support{Err: unix.EPERM}
	k := Kernel{Release: "6.12", BTF: true, Memlock: 8 << 20, Classifier: no, JIT: no, XDP: no, TCX: no, RingBuffer: no, TAI: no, Segments: no}
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

// The cure has every capability of the service's unit.
func TestCapabilityCure(t *testing.T) {
	unit, err := os.ReadFile("../../packaging/systemd/waymark.service")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(unit), "\nCapabilityBoundingSet=")
	line, _, _ := strings.Cut(after, "\n")
	if !ok || len(strings.Fields(line)) < 4 {
		t.Fatalf("the unit has the capabilities %q", line)
	}
	for _, name := range strings.Fields(line) {
		if !strings.Contains(capabilityCure, name) {
			t.Errorf("%q lacks %s", capabilityCure, name)
		}
	}
}

func TestMissingCapabilities(t *testing.T) {
	if m := MissingCapabilities(1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN); len(m) != 0 {
		t.Errorf("CAP_SYS_ADMIN and CAP_NET_ADMIN lack %v", m)
	}
	if m := MissingCapabilities(math.MaxUint64 &^ (1 << unix.CAP_SYS_ADMIN)); len(m) != 1 || !strings.HasPrefix(m[0], "CAP_SYS_ADMIN (to ") {
		t.Errorf("all others lack %v, want CAP_SYS_ADMIN", m)
	}
	if m := MissingCapabilities(0); len(m) != 2 {
		t.Errorf("no capability lacks %v, want two", m)
	}
}

// TestProbes probes the kernel that runs the tests: where that kernel has what
// the product needs, the probes must find it.
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
		t.Error("OwnAddresses reports a documentation address as own")
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if own := netip.MustParsePrefix(a.String()).Addr(); !isOwn(own) {
			t.Errorf("OwnAddresses does not report %v as own", own)
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

// Only a node that forwards can insert into other nodes' packets.
func TestInlineOnRouter(t *testing.T) {
	for _, tt := range []struct{ forwards, inline, own, warned bool }{
		{true, true, false, true},
		{true, true, true, false},
		{true, false, false, false},
		{false, true, false, false},
	} {
		n := healthyNode()
		n.Forwards, n.Encapsulations[0].Inline, n.Encapsulations[0].Own = tt.forwards, tt.inline, tt.own
		var want []Warning
		if tt.warned {
			want = []Warning{InlineOnRouter("core", "eth1")}
		}
		if got := CheckNode(n); !slices.Equal(got, want) {
			t.Errorf("%+v: %+v, want %+v", tt, got, want)
		}
	}
}

func TestDecapsulation(t *testing.T) {
	for _, tt := range []struct {
		anySource, bare, noNamespaces bool
		want                          Code
	}{
		{anySource: true},
		{anySource: true, bare: true, want: DecapsulationOpen},
		{anySource: true, bare: true, noNamespaces: true, want: DecapsulationOpen},
		{bare: true},
		{bare: true, noNamespaces: true},
		{anySource: true, noNamespaces: true, want: DecapsulationIdle},
		{noNamespaces: true, want: DecapsulationIdle},
	} {
		n := healthyNode()
		n.Decapsulations = []Decapsulation{{netip.MustParseAddr("2001:db8::3"), tt.anySource, tt.bare, tt.noNamespaces}}
		ws := CheckNode(n)
		if got := len(ws) == 1 && ws[0].Code == tt.want; got != (tt.want != "") || len(ws) > 1 {
			t.Errorf("%+v: %+v", tt, ws)
		}
	}
}

func TestVainExports(t *testing.T) {
	n := healthyNode()
	n.Unsent, n.Encapsulations[0].Unjoined = []ioam.NamespaceID{1, 20}, true
	ws := CheckNode(n)
	if len(ws) != 2 || ws[0].Code != ExportsUnsent || !strings.Contains(ws[0].Text, "namespaces 1, 20,") ||
		ws[1].Code != SequenceUnjoined || ws[1].Interface != "eth1" || !strings.Contains(ws[1].Text, "encapsulation core ") {
		t.Errorf("%+v", ws)
	}
	n = healthyNode()
	n.Unsent = []ioam.NamespaceID{1}
	if ws := CheckNode(n); !slices.ContainsFunc(ws, func(w Warning) bool { return strings.Contains(w.Text, "for namespace 1,") }) {
		t.Errorf("%+v", ws)
	}
}

// A node that inserts Direct Exports must know which packets are exports.
func TestCollectorsUnknown(t *testing.T) {
	for _, tt := range []struct{ exporting, none, want bool }{
		{true, true, true},
		{true, false, false},
		{false, true, false},
	} {
		n := healthyNode()
		n.Encapsulations[0].Exporting, n.NoCollectors = tt.exporting, tt.none
		ws := CheckNode(n)
		if got := len(ws) == 1 && ws[0].Code == CollectorsUnknown && ws[0].Severity == Degraded; got != tt.want || len(ws) > 0 && !tt.want {
			t.Errorf("%+v: %+v", tt, ws)
		}
	}
	w := CollectorUnspared("udp://x:4739", "nobody has it")
	if w.Code != CollectorsUnknown || !strings.Contains(w.Text, "udp://x:4739") || !strings.HasSuffix(w.Text, ": nobody has it") {
		t.Errorf("%+v", w)
	}
}

// Something that an RFC advises against, but that an operator may want, is a
// hint: it comes after all other warnings, and only on request.
func TestHints(t *testing.T) {
	n := healthyNode()
	n.Unsecured, n.Encapsulations[0].Unselective, n.PrivatePins = []string{"udp://a:1", "tcp://b:2"}, true, true
	ws := CheckNode(n)
	if len(ws) != 3 || ws[1].Code != ExportsUnsecured || !strings.Contains(ws[1].Text, "udp://a:1 and tcp://b:2 ") ||
		ws[2].Code != ExportsUnselective || ws[2].Interface != "eth1" || !strings.Contains(ws[2].Text, "encapsulation core ") {
		t.Fatalf("%+v", ws)
	}
	if Worst(ws[1:]) != Hint {
		t.Errorf("hints have the severity %q", Worst(ws[1:]))
	}
	if rest := WithoutHints(ws); len(rest) != 1 || rest[0].Code != BPFFSPrivate {
		t.Errorf("without hints: %+v", rest)
	}
}

// No end refuses what is inserted inline: the packets only pass unfilled.
func TestUnfilledInline(t *testing.T) {
	for inline, refused := range map[bool]bool{false: true, true: false} {
		ws := unfilled(Encapsulation{Name: "core", Inline: inline, Unknown: []ioam.NamespaceID{7}})
		if len(ws) != 1 || strings.Contains(ws[0].Text, "decap_refused_bare") != refused {
			t.Errorf("inline %v: %+v", inline, ws)
		}
	}
}

// A user without privileges is told so, not to restart the agent.
func TestUnaskedAgent(t *testing.T) {
	for _, tt := range []struct {
		err  error
		cure string
	}{
		{fmt.Errorf("the socket: %w", fs.ErrPermission), "run it as root"},
		{errors.New("timeout"), "restart it if it does not answer"},
	} {
		if w := UnaskedAgent(tt.err); w.Code != AgentUnasked || w.Severity != Error || !strings.HasSuffix(w.Cure, tt.cure) {
			t.Errorf("%v: %+v", tt.err, w)
		}
	}
}
