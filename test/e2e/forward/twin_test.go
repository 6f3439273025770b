// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// Two routers that are alike but for Waymark: the kernel forwards in plain, and
// fast is what is tested. They get the same packets from one node and send to
// another one; those two have no stack of their own.
//
//	       ┌ fast  eth0 ── eth1, eth2, eth3 ┐
//	sender ┤                                ├ sink
//	       └ plain eth0 ── eth1, eth2, eth3 ┘
const twinNodes = "name: twins\nnodes: [{name: sender}, {name: sink}, {name: fast}, {name: plain}]\n"

const twinAgent = `
node: {id: 1}
interfaces:
  - {name: eth0, id: 100, attach: ATTACH, forwarding: fast, role: [ingress, egress]}
  - {name: eth1, id: 101, role: [ingress, egress]}
`

// twinPorts counts eth0, where packets arrive, and the ports that they leave
// through.
const twinPorts = 4

// twins are the two routers, and what left them.
type twins struct {
	lab      *lab.Lab
	fast     *lab.Node
	plain    *lab.Node
	state    *ebpf.Map // the fast router's map "forwarding"
	ports    map[string]*packetPort
	last     uint32           // number of the last packet
	own      net.HardwareAddr // the link-layer address of both routers' eth0
	settings []string         // what undoes the settings of the node
	ways     map[string]bool  // ways that the last packets took
	mu       sync.Mutex
	came     map[string]map[uint32][]string // by router and packet: interface and bytes
}

// packetPort sends frames from an interface.
type packetPort struct {
	fd int
	to *unix.SockaddrLinklayer
}

// twinAddress is an interface's own link-layer address, the same in both routers.
func twinAddress(port int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 1, byte(port)} }

// nextHopAddress is the link-layer address of a next hop at a port.
func nextHopAddress(port, hop int) net.HardwareAddr {
	return net.HardwareAddr{2, 0, 0, 0, byte(0x10 + port), byte(hop)}
}

// nextHops are the commands that add neighbour entries for all next hops of a
// port.
func nextHops(port int) (out []string) {
	for hop := 2; hop < 6; hop++ {
		for _, address := range []string{fmt.Sprintf("2001:db8:%d::%d", 10+port, hop), fmt.Sprintf("fe80::%d", hop)} {
			out = append(out, fmt.Sprintf("neigh replace %s lladdr %v dev eth%d nud permanent", address, nextHopAddress(port, hop), port))
		}
	}
	return out
}

// atAddress are the commands that change a port's link-layer address and add its
// next hops again, because the kernel forgets them at a change.
func atAddress(port int, address net.HardwareAddr) []string {
	return append([]string{fmt.Sprintf("link set eth%d address %v", port, address)}, nextHops(port)...)
}

// raiseTwins raises them; attach is how programs are attached.
func raiseTwins(t *testing.T, attach string) *twins {
	t.Helper()
	l := e2e.RaiseText(t, "twins", twinNodes)
	w := &twins{lab: l, fast: l.Node("fast"), plain: l.Node("plain"), ports: map[string]*packetPort{}, own: twinAddress(0),
		came: map[string]map[uint32][]string{"fast": {}, "plain": {}}}
	for _, n := range []*lab.Node{w.fast, w.plain} {
		w.connect(t, n)
	}
	agent, err := w.fast.StartAgent(t.Context(), []byte(strings.ReplaceAll(twinAgent, "ATTACH", attach)))
	if err != nil {
		t.Fatal(err)
	}
	w.state, err = ebpf.LoadPinnedMap(filepath.Join(api.Root, "bpf", agent.Instance.ID, "forwarding"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.state.Close() })
	for _, router := range []string{"fast", "plain"} {
		w.watch(t, router)
	}
	e2e.AwaitRouting(t, l)
	return w
}

// connect configures a router's links, addresses and next hops.
func (w *twins) connect(t *testing.T, n *lab.Node) {
	t.Helper()
	var links, settings []string
	for port := range twinPorts {
		name, peer, node := fmt.Sprintf("eth%d", port), fmt.Sprintf("%s%d", n.Name(), port), "sink"
		if port == 0 {
			node = "sender"
		}
		links = append(links,
			fmt.Sprintf("link add %s address %v type veth peer name %s netns %s", name, twinAddress(port), peer, w.lab.Node(node).Namespace()),
			fmt.Sprintf("link set %s up", name), fmt.Sprintf("addr add 2001:db8:%d::1/64 dev %s nodad", 10+port, name))
		links = append(links, nextHops(port)...)
		settings = append(settings, "net.ipv6.conf."+name+".keep_addr_on_down=1")
	}
	links = append(
		links,
		"route add 2001:db8:5::/48 via 2001:db8:10::2",
		"rule add pref 50 to 2001:db8:10::/64 lookup main",
	) // so that the sender gets answers
	e2e.Must(t, n, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", "net.ipv6.fib_multipath_hash_policy=0",
		"net.ipv6.icmp.ratelimit=0", "net.ipv6.icmp.ratemask=255", "net.ipv6.conf.default.router_solicitations=0")
	w.configure(t, n, links)
	e2e.Must(t, n, append([]string{"sysctl", "-qw"}, settings...)...)
	for port := range twinPorts {
		node, peer := w.lab.Node("sink"), fmt.Sprintf("%s%d", n.Name(), port)
		if port == 0 {
			node = w.lab.Node("sender")
		}
		e2e.Must(t, node, "sysctl", "-qw", "net.ipv6.conf."+peer+".disable_ipv6=1")
		e2e.Must(t, node, "ip", "link", "set", peer, "up", "mtu", "9000")
		e2e.Must(t, node, "ethtool", "-K", peer, "gro", "on")
	}
}

// configure runs commands of ip in a router.
func (w *twins) configure(t *testing.T, n *lab.Node, commands []string) {
	t.Helper()
	if out, err := w.batch(t, n, commands); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", n.Name(), err, out, strings.Join(commands, "\n"))
	}
}

// batch runs commands of ip, with one process per address family; nexthop groups
// have no family.
func (w *twins) batch(t *testing.T, n *lab.Node, commands []string, options ...string) ([]byte, error) {
	t.Helper()
	ofAny := func(command string) bool {
		return strings.HasPrefix(command, "nexthop") && strings.Contains(command, " group ")
	}
	for len(commands) > 0 {
		i := 1
		for i < len(commands) && ofAny(commands[i]) == ofAny(commands[0]) {
			i++
		}
		args := append(slices.Clone(options), "-batch", "-")
		if !ofAny(commands[0]) {
			args = append(args, "-6")
		}
		c := n.Command(t.Context(), "ip", args...)
		c.Stdin = strings.NewReader(strings.Join(commands[:i], "\n") + "\n")
		if out, err := c.CombinedOutput(); err != nil && len(options) == 0 {
			return out, err
		}
		commands = commands[i:]
	}
	return nil, nil
}

// both runs commands of ip in both routers and waits until the fast one's agent
// has heard of the changes.
func (w *twins) both(t *testing.T, commands ...string) {
	t.Helper()
	if len(commands) == 0 {
		return
	}
	before := w.generation(t)
	w.configure(t, w.plain, commands)
	w.configure(t, w.fast, commands)
	w.awaitGeneration(t, before)
}

// try does the same with commands that the kernel may refuse.
func (w *twins) try(t *testing.T, commands []string) {
	t.Helper()
	before := w.generation(t)
	for _, n := range []*lab.Node{w.plain, w.fast} {
		_, _ = w.batch(t, n, commands, "-force")
	}
	w.awaitGeneration(t, before)
}

// awaitGeneration waits until the agent has heard of a change after before, and then of no
// more for a while.
func (w *twins) awaitGeneration(t *testing.T, before uint32) {
	t.Helper()
	const quiet = 25 * time.Millisecond
	last, since := before, time.Now()
	for begun := since; ; time.Sleep(time.Millisecond) {
		now := w.generation(t)
		if now != last {
			last, since = now, time.Now()
		}
		if last != before && time.Since(since) > quiet || time.Since(begun) > patience.Of(500*time.Millisecond) {
			return
		}
	}
}

func (w *twins) generation(t *testing.T) uint32 {
	t.Helper()
	return binary.NativeEndian.Uint32(w.forwarding(t)[8:])
}

// byStack reports whether the fast router's agent leaves all packets to the
// stack.
func (w *twins) byStack(t *testing.T) bool {
	t.Helper()
	const keyStack = 4
	return binary.NativeEndian.Uint16(w.forwarding(t)[12:])&keyStack != 0
}

func (w *twins) forwarding(t *testing.T) []byte {
	t.Helper()
	value := make([]byte, 16) // struct forwarding
	if err := w.state.Lookup(uint32(0), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// watch records what a router sends, and opens a socket that sends to it.
func (w *twins) watch(t *testing.T, router string) {
	t.Helper()
	for port := range twinPorts {
		node, name := "sink", fmt.Sprintf("%s%d", router, port)
		if port == 0 {
			node = "sender"
			if err := w.lab.Node(node).Do(func() (err error) { w.ports[router], err = openPort(name); return err }); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Close(w.ports[router].fd) })
		}
		capture, err := w.lab.Capture(node, name, lab.CaptureOptions{Each: func(p lab.Packet) {
			if !p.Outgoing {
				w.recordFrame(router, fmt.Sprintf("eth%d", port), p.Data)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if stats, err := capture.Stop(); err != nil || stats.Dropped > 0 {
				t.Errorf("the capture at %s missed %d packets: %v", name, stats.Dropped, err)
			}
		})
	}
}

func openPort(name string) (*packetPort, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	return &packetPort{fd: fd, to: &unix.SockaddrLinklayer{Ifindex: device.Index, Halen: 6}}, err
}

// recordFrame keeps a frame that left a router, by the flow label of its packet or of
// the packet that it quotes.
func (w *twins) recordFrame(router, at string, frame []byte) {
	if len(frame) < 14+40 || frame[0]&1 != 0 || frame[12] != 0x86 || frame[13] != 0xdd {
		return
	}
	ip := frame[14:]
	number := binary.BigEndian.Uint32(ip) & 0xfffff
	if ip[6] == 58 && len(ip) >= 48 {
		switch kind := ip[40]; {
		case kind >= 130 && kind != 255: // neighbour discovery
			return
		case kind < 128 && len(ip) >= 88:
			number = binary.BigEndian.Uint32(ip[48:]) & 0xfffff
			binary.BigEndian.PutUint32(ip, 6<<28) // each stack chooses its own flow label
			if kind == 1 && ip[41] == 3 {
				return // address unreachable: sent when a neighbour could not be resolved
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came[router][number] = append(w.came[router][number], at+" "+hex.EncodeToString(frame))
}

// trial is a packet for both routers; its flow label is its number.
type trial struct {
	number uint32
	what   string
	frame  []byte
}

// newTrial makes a packet with the next number.
func (w *twins) newTrial(source, destination string, class, next byte, body []byte) trial {
	w.last = w.last%0xffffe + 1
	h := craft.Between(source, destination, next)
	h.Class, h.Label = class, w.last
	frame := craft.Ethernet(twinAddress(0), nextHopAddress(0, 2), h.With(body))
	what := fmt.Sprintf("%s → %s, class %#x, next header %d, %d bytes", source, destination, class, next, len(frame)-14)
	if next == 6 || next == 17 {
		what += fmt.Sprintf(", ports %d → %d", binary.BigEndian.Uint16(body), binary.BigEndian.Uint16(body[2:]))
	}
	return trial{w.last, what, frame}
}

// pass sends packets through both routers and returns as text, in the packets'
// order, what left each.
func (w *twins) pass(t *testing.T, trials []trial) (fast, plain []string) {
	t.Helper()
	const question = "an echo that ends the packets "
	last := w.newTrial("2001:db8:10::2", "2001:db8:10::1", 0, 58, nil)
	body := append([]byte{128, 0, 0, 0}, question...)
	binary.BigEndian.PutUint16(last.frame[14+4:], uint16(len(body)))
	last.frame = append(last.frame, body...)
	craft.Seal(last.frame[14:])
	copy(last.frame, w.own)
	onOneCPU(t, func() {
		for router, port := range w.ports {
			for _, p := range append(trials[:len(trials):len(trials)], last) {
				if err := unix.Sendto(port.fd, p.frame, 0, port.to); err != nil {
					t.Fatalf("send to %s: %v", router, err)
				}
			}
		}
	})
	answered := func(router string) bool {
		for _, all := range w.came[router] {
			for _, text := range all {
				if strings.Contains(text, hex.EncodeToString([]byte(question))) {
					return true
				}
			}
		}
		return false
	}
	deadline := time.Now().Add(patience.Of(300 * time.Millisecond))
	for settled := 0; settled < 2; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		done := answered("fast") && answered("plain")
		fast, plain = w.results("fast", trials), w.results("plain", trials)
		w.mu.Unlock()
		if done && slices.Equal(fast, plain) {
			settled++
		} else if settled = 0; time.Now().After(deadline) {
			if !done {
				t.Fatal("the routers did not answer in time")
			}
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came = map[string]map[uint32][]string{"fast": {}, "plain": {}}
	return fast, plain
}

// results returns sorted texts, because the order of two ways is undefined.
func (w *twins) results(router string, trials []trial) (out []string) {
	for _, p := range trials {
		all := w.came[router][p.number]
		slices.Sort(all)
		out = append(out, strings.Join(all, "; "))
	}
	return out
}

// brief is a result without most of its bytes.
func brief(result string) string {
	if result == "" {
		return "nothing"
	}
	var out []string
	for _, one := range strings.Split(result, "; ") {
		at, text, _ := strings.Cut(one, " ")
		frame, err := hex.DecodeString(text)
		if err != nil || len(frame) < 14+48 {
			out = append(out, one)
			continue
		}
		what := fmt.Sprintf("%d bytes to %v", len(frame)-14, net.HardwareAddr(frame[:6]))
		if frame[14+6] == 58 && frame[14+40] < 128 {
			what = fmt.Sprintf("ICMPv6 error %d/%d, %d", frame[14+40], frame[14+41], binary.BigEndian.Uint32(frame[14+44:]))
		}
		out = append(out, at+": "+what)
	}
	return strings.Join(out, "; ")
}

// compare sends packets and checks that both routers do the same; it returns how
// many packets differ, and how many were forwarded fast.
func (w *twins) compare(t *testing.T, trials []trial) (differ, wentFast int) {
	t.Helper()
	before := e2e.StackForwards(t, w.lab, "fast")
	fast, plain := w.pass(t, trials)
	if !slices.Equal(fast, plain) { // on a busy machine, the agent may hear of changes late
		time.Sleep(patience.Of(200 * time.Millisecond))
		before = e2e.StackForwards(t, w.lab, "fast")
		fast, plain = w.pass(t, trials)
	}
	w.ways = map[string]bool{}
	wentFast = -int(e2e.StackForwards(t, w.lab, "fast") - before)
	for i, p := range trials {
		if text := brief(fast[i]); text != "nothing" && !strings.Contains(text, "error") {
			wentFast++
			w.ways[text[:4]] = true
		}
		if fast[i] == plain[i] {
			continue
		}
		if differ++; differ <= 3 {
			t.Errorf("%s\nfast:  %s\nplain: %s", p.what, brief(fast[i]), brief(plain[i]))
			if brief(fast[i]) == brief(plain[i]) {
				t.Errorf("fast:  %s\nplain: %s", fast[i], plain[i])
			}
		}
	}
	return differ, wentFast
}

// used is how many ways the last packets took.
func (w *twins) used() int { return len(w.ways) }

// datagram is UDP or TCP whose packet has a length, IPv6 header included.
func datagram(source, destination uint16, length int) []byte {
	b := binary.BigEndian.AppendUint16(nil, source)
	b = binary.BigEndian.AppendUint16(b, destination)
	return append(b, bytes.Repeat([]byte{0x5a}, max(0, length-40-4))...)
}
