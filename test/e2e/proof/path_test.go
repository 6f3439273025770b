// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// topology is the path athos, porthos, dartagnan, aramis, with two links more: by one,
// packets get past porthos; by the other, they come back to it.
//
//	alpha - athos - porthos - dartagnan - aramis - beta
//	          \________|_______/ |           |
//	                   \_________/           |
//	                   \_____________________/
const topology = `
name: proof
permanent-neighbours: true
nodes:
  - name: alpha
    routes: [{to: "::/0", via: 2001:db8:1::1}]
  - name: athos
    addresses: 2001:db8:ff::1/128
    routes: [{to: 2001:db8:2::/64, via: 2001:db8:12::2}, {to: 2001:db8:ff::4/128, via: 2001:db8:12::2}]
    agent:
      interfaces: [{name: eth0}, {name: eth1, role: [ingress, egress], attach: ATTACH}, {name: eth2, role: [ingress, egress], attach: ATTACH}]
      namespaces: [{id: 7, pot: {key-file: KEY1}}]
      encapsulations:
        - {name: proofs, interface: eth1, match: {destination: "::/0"}, mode: auto, tunnel: {source: 2001:db8:ff::1, destination: 2001:db8:ff::4}, options: [{trace: {namespace: 7, type: 0x800000, size: 20}}, {pot: {namespace: 7}}]}
        - {name: past, interface: eth2, match: {destination: "::/0"}, mode: auto, tunnel: {source: 2001:db8:ff::1, destination: 2001:db8:ff::4}, options: [{trace: {namespace: 7, type: 0x800000, size: 20}}, {pot: {namespace: 7}}]}
  - name: porthos
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:12::1}, {to: 2001:db8:2::/64, via: 2001:db8:23::2}, {to: 2001:db8:ff::4/128, via: 2001:db8:23::2}]
    agent:
      interfaces: [{name: eth0, role: [ingress, egress], attach: ATTACH, forwarding: FORWARDING}, {name: eth1, role: [ingress, egress], attach: ATTACH}, {name: eth2, role: [ingress, egress], attach: ATTACH}, {name: eth3, role: [ingress, egress], attach: ATTACH}]
      namespaces: [{id: 7, pot: {key-file: KEY2}}]
  - name: dartagnan
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:23::1}, {to: 2001:db8:2::/64, via: 2001:db8:34::2}, {to: 2001:db8:ff::4/128, via: 2001:db8:34::2}]
    agent:
      interfaces: [{name: eth0, role: [ingress, egress], attach: ATTACH}, {name: eth1, role: [ingress, egress], attach: ATTACH}, {name: eth2, role: [ingress, egress], attach: ATTACH}, {name: eth3, role: [ingress, egress], attach: ATTACH}]
      namespaces: [{id: 7, pot: {key-file: KEY3}}]
  - name: aramis
    addresses: 2001:db8:ff::4/128
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:34::1}]
    agent:
      interfaces: [{name: eth0, role: [ingress, egress], attach: ATTACH}, {name: eth1, role: [ingress, egress], attach: ATTACH}, {name: eth2}]
      namespaces: [{id: 7, pot: {key-file: KEY4, drop-rejected: false}}]
      decapsulations: [{tunnel-destination: 2001:db8:ff::4}]
  - name: beta
    routes: [{to: "::/0", via: 2001:db8:2::1}]
links:
  - ends: [{node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}, {node: athos, interface: eth0, addresses: 2001:db8:1::1/64}]
  - {mtu: 1700, ends: [{node: athos, interface: eth1, addresses: 2001:db8:12::1/64}, {node: porthos, interface: eth0, addresses: 2001:db8:12::2/64}]}
  - {mtu: 1700, ends: [{node: porthos, interface: eth1, addresses: 2001:db8:23::1/64}, {node: dartagnan, interface: eth0, addresses: 2001:db8:23::2/64}]}
  - {mtu: 1700, ends: [{node: dartagnan, interface: eth1, addresses: 2001:db8:34::1/64}, {node: aramis, interface: eth0, addresses: 2001:db8:34::2/64}]}
  - {mtu: 1700, ends: [{node: athos, interface: eth2, addresses: 2001:db8:13::1/64}, {node: dartagnan, interface: eth2, addresses: 2001:db8:13::2/64}]}
  - {mtu: 1700, ends: [{node: porthos, interface: eth2, addresses: 2001:db8:32::1/64}, {node: dartagnan, interface: eth3, addresses: 2001:db8:32::2/64}]}
  - {mtu: 1700, ends: [{node: porthos, interface: eth3, addresses: 2001:db8:24::1/64}, {node: aramis, interface: eth1, addresses: 2001:db8:24::2/64}]}
  - ends: [{node: aramis, interface: eth2, addresses: 2001:db8:2::1/64}, {node: beta, interface: eth0, addresses: 2001:db8:2::2/64}]
`

// raise starts the nodes with the keys of a new profile, made by the program.
func raise(t *testing.T, attach, forwarding string) *lab.Lab {
	t.Helper()
	code, stdout, stderr := e2e.Waymark(t, "pot", "generate", "--nodes", "4", "--dir", t.TempDir(), "--json")
	var made struct{ Keys []struct{ File string } }
	if err := json.Unmarshal([]byte(stdout), &made); err != nil || code != 0 || len(made.Keys) != 4 {
		t.Fatalf("code %d, %q, %q, %v", code, stdout, stderr, err)
	}
	text := strings.NewReplacer("ATTACH", attach, "FORWARDING", forwarding).Replace(topology)
	for i, k := range made.Keys {
		text = strings.Replace(text, fmt.Sprintf("KEY%d", i+1), k.File, 1)
	}
	return e2e.RaiseText(t, "proof", text)
}

// judged is how many proofs the last node, or another, has judged so.
func judged(t *testing.T, l *lab.Lab, node, outcome string) (n uint64) {
	t.Helper()
	for _, i := range e2e.StatusOf(t, l, node).Interfaces {
		n += max(i.Ingress[outcome], i.IngressOptions[outcome]) // the latter has the former, but for what is not an option's
	}
	return n
}

// expect sends datagrams, of which some arrive, and checks what the last node made of
// their proofs.
func expect(t *testing.T, l *lab.Lab, what, outcome string, arrive bool) {
	t.Helper()
	const packets = 20
	all := []string{"pot_accepted", "pot_rejected", "pot_replayed", "pot_too_old", "pot_ahead", "pot_invalid", "pot_dropped"}
	before := map[string]uint64{}
	for _, o := range all {
		before[o] = judged(t, l, "aramis", o)
	}
	r, err := l.Send(
		t.Context(),
		lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: packets, Interval: 2 * time.Millisecond, Size: 100, Port: 9000},
	)
	if want := map[bool]int{true: packets}[arrive]; err != nil || r.Received != want {
		t.Errorf("%s: %d of %d packets arrived, want %d; %v", what, r.Received, packets, want, err)
	}
	for _, o := range all {
		want := uint64(0)
		if o == outcome || o == "pot_dropped" && !arrive {
			want = packets
		}
		got := func() uint64 { return judged(t, l, "aramis", o) - before[o] }
		if want > 0 {
			e2e.Await(t, what+": "+o, 5*time.Second, func() bool { return got() >= want })
		}
		if n := got(); n != want {
			t.Errorf("%s: %s %d, want %d", what, o, n, want)
		}
	}
}

// replay sends the last packet to aramis once more, from its neighbour, as it was.
func replay(t *testing.T, l *lab.Lab) (again func()) {
	t.Helper()
	var lock sync.Mutex
	var last []byte
	capture, err := l.Capture("dartagnan", "eth1", lab.CaptureOptions{Each: func(p lab.Packet) {
		if p.Outgoing && lab.IOAMBytes(p.Data) > 0 {
			lock.Lock()
			defer lock.Unlock()
			last = append([]byte(nil), p.Data...)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := capture.Stop(); err != nil {
			t.Fatal(err)
		}
		lock.Lock()
		defer lock.Unlock()
		if last == nil {
			t.Fatal("no packet was captured")
		}
		err := l.Node("dartagnan").Do(func() error { return e2e.Inject("eth1", last[:6], [][]byte{last[14:]}) })
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Packets on the path are accepted. One that gets past a node, passes one twice or comes
// again is not, and is dropped if the configuration says so.
func TestProofOfTransit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, attach, forwarding string }{
		{"xdp", "xdp", "stack"}, {"tc", string(e2e.TCModes()[0]), "stack"}, {"fast", "xdp", "fast"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := raise(t, test.attach, test.forwarding)
			if test.forwarding == "fast" {
				e2e.AwaitRouting(t, l)
			}
			again := replay(t, l)
			var dissected func()
			if test.forwarding != "fast" { // no capture sees what XDP redirects
				dissected = dissect(t, l)
			}
			expect(t, l, "the path", "pot_accepted", true)
			if dissected != nil {
				dissected()
			}
			if n := judged(t, l, "porthos", "pot_updated"); n != 20 {
				t.Errorf("porthos updated %d proofs, want 20", n)
			}
			again()
			e2e.Await(t, "the packet that came again is found", 5*time.Second, func() bool { return judged(t, l, "aramis", "pot_replayed") == 1 })

			athos, porthos, dartagnan := l.Node("athos"), l.Node("porthos"), l.Node("dartagnan")
			past := func(via string) {
				e2e.Must(t, athos, "ip", "-6", "route", "replace", "2001:db8:2::/64", "via", via)
				e2e.Must(t, athos, "ip", "-6", "route", "replace", "2001:db8:ff::4/128", "via", via)
			}
			past("2001:db8:13::2")
			expect(t, l, "past porthos", "pot_rejected", true)
			past("2001:db8:12::2")
			expect(t, l, "the path again", "pot_accepted", true)

			e2e.Must(t, porthos, "ip", "-6", "rule", "add", "iif", "eth2", "lookup", "100")
			e2e.Must(t, porthos, "ip", "-6", "route", "add", "2001:db8:ff::4/128", "via", "2001:db8:24::2", "table", "100")
			e2e.Must(t, dartagnan, "ip", "-6", "route", "replace", "2001:db8:ff::4/128", "via", "2001:db8:32::1")
			expect(t, l, "porthos twice", "pot_rejected", true)

			drop(t, l)
			expect(t, l, "porthos twice, dropped", "pot_rejected", false)
			e2e.Must(t, dartagnan, "ip", "-6", "route", "replace", "2001:db8:ff::4/128", "via", "2001:db8:34::2")
			expect(t, l, "the path, others dropped", "pot_accepted", true)
		})
	}
}

// dissect captures the proofs that reach dartagnan. The function that it returns reads them
// with our dissector.
func dissect(t *testing.T, l *lab.Lab) func() {
	t.Helper()
	wire := e2e.StartWire(t, l, "dartagnan", "eth0")
	return func() {
		t.Helper()
		wire.Stop(t)
		numbers, sums := map[string]bool{}, map[string]bool{}
		packets := e2e.Dissect(
			t,
			wire.Path,
			"ioam.type == 2",
			"ioam.namespace",
			"ioam.pot.type",
			"ioam.pot.flags",
			"ioam.pot.pktid",
			"ioam.pot.cumulative",
			"_ws.malformed",
		)
		for _, p := range packets {
			if p[0] != "7" || p[1] != "0" || p[2] != "0x00" || p[5] != "" {
				t.Errorf("the dissector reads %q", p)
			}
			numbers[p[3]], sums[p[4]] = true, true
		}
		if len(packets) != 20 || len(numbers) != 20 || len(sums) != 20 {
			t.Errorf("the dissector finds %d proofs with %d numbers and %d values of Cumulative, want 20", len(packets), len(numbers), len(sums))
		}
	}
}

// drop makes aramis drop what is not proven.
func drop(t *testing.T, l *lab.Lab) {
	t.Helper()
	e2e.Rewrite(t, l, "aramis", func(text string) string {
		return strings.Replace(text, "drop-rejected: false", "drop-rejected: true", 1)
	})
	e2e.MustIn(t, l, "aramis", "agent", "reload")
}

// A key that others can read is refused, and an agent that runs keeps the key it has. No
// output has a key.
func TestKeysStaySecret(t *testing.T) {
	t.Parallel()
	l := raise(t, "auto", "stack")
	expect(t, l, "the path", "pot_accepted", true)
	files, err := filepath.Glob(filepath.Join(l.Directory(), "aramis*"))
	if err != nil {
		t.Fatal(err)
	}
	key := keyOf(l, "aramis")
	content, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := e2e.In(t, l, "aramis", "agent", "reload")
	if err == nil || !strings.Contains(out, "chmod 600 "+key) {
		t.Errorf("reload with a key that others can read: %v, %q", err, out)
	}
	expect(t, l, "after the refused reload", "pot_accepted", true)
	for _, args := range [][]string{{"agent", "config"}, {"status"}, {"status", "--json"}, {"ioam", "namespace", "show"},
		{"config", "show", filepath.Join(l.Directory(), "aramis.yaml")}} {
		text, err := e2e.In(t, l, "aramis", args...)
		if err != nil {
			t.Errorf("%q: %v, %s", args, err, text)
		}
		out += text
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out += string(text)
	}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if len(value) == 16 && name != "profile" && strings.Contains(out, value) {
			t.Errorf("%s of the key was printed or logged", name)
		}
	}
}

// keyOf is the file with a node's key.
func keyOf(l *lab.Lab, node string) string {
	_, rest, _ := strings.Cut(string(l.Topology().Node(node).Agent.Config), "key-file: ")
	return strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune(" ,}\"", r) })[0]
}

// Running agents get keys, and lose them, by commands that name the files; a path may be relative
// to where the command runs.
func TestKeysAtRuntime(t *testing.T) {
	t.Parallel()
	l := raise(t, "auto", "stack")
	set := func(node string, words ...string) {
		t.Helper()
		e2e.MustIn(t, l, node, append([]string{"ioam", "namespace", "set", "7"}, words...)...)
	}
	expect(t, l, "the path", "pot_accepted", true)
	set("porthos", "pot", "none")
	expect(t, l, "without porthos' key", "pot_rejected", true)
	set("aramis", "drop-rejected", "on")
	expect(t, l, "without porthos' key, dropped", "pot_rejected", false)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	key, err := filepath.Rel(here, keyOf(l, "porthos"))
	if err != nil {
		t.Fatal(err)
	}
	set("porthos", "pot", key)
	expect(t, l, "with porthos' key again", "pot_accepted", true)
	if err := os.Chmod(keyOf(l, "dartagnan"), 0o644); err != nil {
		t.Fatal(err)
	}
	e2e.MustIn(t, l, "dartagnan", "ioam", "namespace", "set", "7", "pot", "none")
	out, err := e2e.In(t, l, "dartagnan", "ioam", "namespace", "set", "7", "pot", keyOf(l, "dartagnan"))
	if err == nil || !strings.HasPrefix(out, "waymark: namespace 7: ") || !strings.Contains(out, "chmod 600 "+keyOf(l, "dartagnan")) {
		t.Errorf("a key that others can read: %v, %q", err, out)
	}
	if shown := e2e.MustIn(t, l, "aramis", "ioam", "namespace", "show"); !strings.Contains(
		shown,
		", pot "+keyOf(l, "aramis")+" drop-rejected",
	) {
		t.Errorf("shown: %s", shown)
	}
}

// The agent's restart neither repeats numbers nor forgets those that were accepted.
func TestProofsOutliveAgents(t *testing.T) {
	t.Parallel()
	l := raise(t, "auto", "stack")
	again := replay(t, l)
	expect(t, l, "before", "pot_accepted", true)
	for _, node := range []string{"athos", "aramis"} {
		e2e.Restart(t, l, node, syscall.SIGKILL)
	}
	again()
	e2e.Await(t, "the packet that came again is found", 5*time.Second, func() bool { return judged(t, l, "aramis", "pot_replayed") == 1 })
	expect(t, l, "after", "pot_accepted", true)
}
