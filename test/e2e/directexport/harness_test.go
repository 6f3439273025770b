// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// collectorPort is where `waymark collect` listens in beta.
const collectorPort = 4739

// dex is the option that most of these tests insert, with fields 0 to 6.
const dex = "dex: {namespace: 123, trace-type: 0xfe0000, extension-flags: [flow-id, sequence]}"

// toCollector exports to it. The message size is set because links inside the
// domain have a larger MTU than those outside, and the UDP message that discovers
// this would be lost.
const toCollector = `export: [{kind: ipfix, address: "udp://[2001:db8:2::2]:4739", message-size: 1200}]
`

// directExports is `line` with a Direct Export in everything that athos sends
// into the domain. Nodes export without limits to a collector in beta, beyond the
// domain. changes apply to the three configurations.
func directExports(t *testing.T, changes ...string) *lab.Topology {
	t.Helper()
	top := e2e.Builtin(t, "line")
	e2e.Reconfigure(t, top, "athos",
		"frequency: 1/10", "frequency: 1/1",
		"{destination: 2001:db8:2::/64", `{destination: "::/0"`,
		"trace: {namespace: 123, type: 0xf80000, size: 60}", dex)
	for _, node := range e2e.Routers {
		e2e.Reconfigure(t, top, node,
			"node: {", toCollector+"node: {export-limit: 1/1, export-rate: 1000000, export-interval: 1s, ",
			"{id: 123}", "{id: 123, export: every}")
		for i := 0; i < len(changes); i += 2 {
			if strings.Contains(string(top.Node(node).Agent.Config), changes[i]) {
				e2e.Reconfigure(t, top, node, changes[i], changes[i+1])
			}
		}
	}
	return top
}

// raiseCollecting raises a topology and starts `waymark collect` in beta before
// the agents: over UDP, a collector that starts later misses the templates.
func raiseCollecting(t *testing.T, top *lab.Topology, args ...string) (*lab.Lab, *e2e.Collecting) {
	t.Helper()
	agents := map[string]*lab.AgentSpec{}
	for i := range top.Nodes {
		if n := &top.Nodes[i]; n.Agent != nil {
			agents[n.Name], n.Agent = n.Agent, nil
		}
	}
	l := e2e.Raise(t, top)
	var listen []string
	for _, transport := range []string{"udp", "tcp"} {
		listen = append(listen, "--listen", fmt.Sprintf("%s://[::]:%d", transport, collectorPort))
	}
	cmd := l.Node("beta").Command(t.Context(), e2e.Program, slices.Concat([]string{"collect", "--json"}, listen, args)...)
	c := e2e.StartCollect(t, cmd.Cmd, cmd.Start)
	for node, agent := range agents {
		l.Topology().Node(node).Agent = agent
		if _, err := l.Node(node).StartAgent(t.Context(), agent.Config); err != nil {
			t.Fatal(err)
		}
		awaitExporters(t, l, node)
	}
	return l, c
}

// awaitExporters waits until agents have sessions with their collectors.
func awaitExporters(t *testing.T, l *lab.Lab, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		e2e.Await(t, "the exporter of "+node+" is connected", 20*time.Second, func() bool {
			exporters := e2e.StatusOf(t, l, node).Records.Sinks
			return !slices.ContainsFunc(exporters, func(e api.Sink) bool { return e.Connected == nil || !*e.Connected })
		})
	}
}

// collected holds a collector's records by kind.
type collected struct {
	paths     []record.Path
	flows     []record.Flow
	postcards []record.Postcard
	traces    []record.Trace
}

func readCollected(t *testing.T, lines []string) (c collected) {
	t.Helper()
	for _, line := range lines {
		var of struct {
			Kind string `json:"kind"`
		}
		var err error
		if err = json.Unmarshal([]byte(line), &of); err == nil {
			switch of.Kind {
			case "path":
				c.paths, err = append(c.paths, record.Path{}), nil
				err = record.Unmarshal([]byte(line), &c.paths[len(c.paths)-1])
			case record.KindFlow:
				c.flows = append(c.flows, record.Flow{})
				err = record.Unmarshal([]byte(line), &c.flows[len(c.flows)-1])
			case record.KindPostcard:
				c.postcards = append(c.postcards, record.Postcard{})
				err = record.Unmarshal([]byte(line), &c.postcards[len(c.postcards)-1])
			case record.KindTrace:
				c.traces = append(c.traces, record.Trace{})
				err = record.Unmarshal([]byte(line), &c.traces[len(c.traces)-1])
			default:
				err = fmt.Errorf("an unexpected kind")
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return c
}

// route formats a path: each node with its id, role, interfaces and hop limit.
func route(p record.Path) string {
	var nodes []string
	for _, n := range p.Nodes {
		nodes = append(nodes, fmt.Sprintf("%s(%s) %s %s>%s %s>%s %s", n.Node, e2e.Value(n.NodeID), n.Role, n.Ingress, n.Egress,
			e2e.Value(n.IngressID), e2e.Value(n.EgressID), e2e.Value(n.HopLimit)))
	}
	return strings.Join(nodes, ", ")
}

// checkSequences checks that the packets of each flow are numbered from 0 without
// a gap, and returns the number of packets.
func checkSequences(t *testing.T, paths []record.Path) (packets int) {
	t.Helper()
	numbers := map[uint32][]uint32{}
	for _, p := range paths {
		numbers[p.FlowID] = append(numbers[p.FlowID], p.Sequence)
	}
	for id, list := range numbers {
		slices.Sort(list)
		for i, n := range list {
			if n != uint32(i) {
				t.Errorf("flow 0x%08x: sequence number at %d of %d is %d", id, i, len(list), n)
				break
			}
		}
		packets += len(list)
	}
	return packets
}

// triggers collects the Direct Exports in what an interface sends. (A capture on
// the receiving side makes the kernel copy forwarded packets, which loses their
// arrival time.)
type triggers struct {
	capture *lab.Capture
	lock    sync.Mutex
	seen    map[string]int      // options, by offset and bytes
	sources map[netip.Addr]bool // of packets with them
	fault   error
}

func startTriggers(t *testing.T, l *lab.Lab, node, name string) *triggers {
	t.Helper()
	s := &triggers{seen: map[string]int{}, sources: map[netip.Addr]bool{}}
	var err error
	s.capture, err = l.Capture(node, name, lab.CaptureOptions{Each: func(p lab.Packet) {
		if !p.Outgoing || lab.IOAMBytes(p.Data) == 0 {
			return
		}
		s.lock.Lock()
		defer s.lock.Unlock()
		s.fault = errors.Join(s.fault, s.see(p.Data[14:]))
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *triggers) see(ip []byte) error {
	header, err := ioam.DecodeExtensionHeader(ip[40:])
	if err != nil {
		return err
	}
	if next, port := upper(ip); (next == 17 || next == 6) && port == collectorPort {
		return fmt.Errorf("a packet to the collector carries % x", ip[40:80])
	}
	for o, err := range header.Options() {
		if err != nil {
			return err
		}
		if carried, err := o.IOAM(); o.IsIOAM() && err == nil && carried.Type == ioam.IOAMDirectExport {
			s.seen[fmt.Sprintf("0x%02x at %d: % x", uint8(o.Type), o.Offset, o.Data)]++
		}
	}
	source, _ := netip.AddrFromSlice(ip[8:24])
	s.sources[source] = true
	return nil
}

// upper finds the protocol and destination port of a packet after its Hop-by-Hop
// header, or of the packet that it tunnels.
func upper(ip []byte) (next byte, port uint16) {
	next = ip[6]
	for rest := ip[40:]; len(rest) >= 4; {
		switch next {
		case 0:
			size := 8 * (int(rest[1]) + 1)
			next, rest = rest[0], rest[min(size, len(rest)):]
		case 41:
			if len(rest) < 40 {
				return next, 0
			}
			next, rest = rest[6], rest[40:]
		default:
			return next, binary.BigEndian.Uint16(rest[2:])
		}
	}
	return next, 0
}

func (s *triggers) stop(t *testing.T) {
	t.Helper()
	if stats, err := s.capture.Stop(); err != nil || s.fault != nil || stats.Dropped > 0 {
		t.Errorf("the capture missed %d packets (%v, %v)", stats.Dropped, err, s.fault)
	}
}

// checkUnchanged stops captures and checks that all saw the same options, of one
// type.
func checkUnchanged(t *testing.T, option ioam.OptionType, links ...*triggers) {
	t.Helper()
	for i, link := range links {
		link.stop(t)
		if len(link.seen) == 0 || !maps.Equal(link.seen, links[0].seen) {
			t.Errorf("link %d has %d different options, the first %d, and they are not the same", i, len(link.seen), len(links[0].seen))
		}
		for seen := range link.seen {
			if !strings.HasPrefix(seen, fmt.Sprintf("0x%02x at ", uint8(option))) {
				t.Fatalf("option %s, want type %v", seen, option)
			}
		}
	}
}

// betaAddress is the address of beta and of the collector.
var betaAddress = netip.MustParseAddr("2001:db8:2::2")

// apply changes the configuration of an agent and loads it.
func apply(t *testing.T, l *lab.Lab, node string, oldnew ...string) {
	t.Helper()
	e2e.Rewrite(t, l, node, strings.NewReplacer(oldnew...).Replace)
	e2e.MustIn(t, l, node, "agent", "reload")
	awaitExporters(t, l, node)
}

const pathOfLine = "athos(1) encapsulating eth0>eth1 101>102 63, porthos(2) transit eth0>eth1 201>202 62, " +
	"aramis(3) decapsulating eth0> 301>- 61"
