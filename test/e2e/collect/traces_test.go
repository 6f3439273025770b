// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// namesOfOthers are what aramis' file says of the nodes whose ids it sees in traces: it names one, and the collector
// that keeps what nodes export knows the other.
const namesOfOthers = `names: [{id: 1, name: athos, interfaces: [{id: 101, name: eth0}, {id: 102, name: eth1}]}]
names-from: {collector: "http://[::1]:4780", interval: 1s}
`

// awaitName waits until a node knows the name of another and of its last interface.
func awaitName(t *testing.T, l *lab.Lab, node string, id ioam.NodeID, name string) {
	t.Helper()
	instance, err := l.Node(node).Instance()
	if err != nil {
		t.Fatal(err)
	}
	e2e.Await(t, node+" knows "+name, 20*time.Second, func() bool {
		names, err := api.NewClient(instance.Socket()).Names(t.Context())
		return err == nil && names.Node(id) == name && names.Interface(id, ioam.InterfaceID(100*id+2)) == "eth1"
	})
}

// The traces that a decapsulating node exports over IPFIX, by UDP and by TCP,
// equal those that its observers see, path delay included. The observers know the names of the
// other nodes from the file and from a collector, that from those nodes, whose options tshark reads, too.
func TestCollectTraces(t *testing.T) {
	t.Parallel()
	const count = 20
	top := e2e.Domain(t, e2e.Modes(config.Attach(e2e.TCModes()[0]))[0])
	for _, node := range []string{"athos", "porthos"} {
		e2e.Reconfigure(t, top, node, "node: {id: ", "export:\n"+exportTwice+"node: {id: ")
	}
	e2e.Reconfigure(t, top, "aramis", "node: {id: 3", namesOfOthers+`export:
  - {kind: ipfix, address: "udp://[::1]:4739"}
  - {kind: ipfix, address: "tcp://[::1]:4739", observation-domain: 33}
node: {id: 3`)
	l := e2e.Raise(t, top)
	keepAtAramis(t, l)
	describe(t, l, "porthos", "eth1", "to aramis")
	wire := e2e.StartWire(t, l, "aramis", "eth0")
	cmd := l.Node("aramis").
		Command(t.Context(), e2e.Program, "collect", "--json", "--listen", "udp://[::1]:4739", "--listen", "tcp://[::]:4739")
	c := e2e.StartCollect(t, cmd.Cmd, cmd.Start)
	// Both sessions are open, and the exporter has sent its node's name.
	awaitExporters(t, l)
	for _, node := range []string{"athos", "porthos"} {
		awaitExporter(t, l, node)
	}
	awaitName(t, l, "aramis", 2, "porthos")
	j := e2e.Keep(t, l, "aramis")
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Interval: 2 * time.Millisecond, Size: 100, Port: 9000})
	seen := j.Read(t, count)
	e2e.Await(t, "every trace, twice", 10*time.Second, func() bool { return len(c.Lines()) >= 2*count })
	lines, stats := c.Stop()
	e2e.CheckNothingWrong(t, stats)
	wire.Stop(t)
	t.Run("tshark", func(t *testing.T) {
		names := tshark.Run(t, wire.Path, "cflow", "-e", "cflow.observation_domain_name", "-e", "cflow.if_name", "-e", "cflow.if_descr")
		got := strings.Join(names, " ")
		if !strings.Contains(got, "athos\teth0,eth1") || !strings.Contains(got, "porthos\teth0,eth1\tto aramis") {
			t.Errorf("tshark reads %q", got)
		}
	})
	times := map[string]int{}
	for _, line := range lines {
		var r record.Trace
		if err := record.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		times[e2e.Line(t, r)]++
	}
	for _, r := range seen {
		names := ""
		for _, n := range r.Nodes {
			names += " " + n.IngressName + " " + n.NodeName + " " + n.EgressName
		}
		if names != " eth0 athos eth1 eth0 porthos eth1 eth0 aramis " {
			t.Errorf("the nodes are%s", names)
		}
		checkShown(t, &r)
		sent := r
		sent.PathDelay.Value -= sent.PathDelay.Value % 1000 // IPFIX has microseconds
		if got := times[e2e.Line(t, sent)]; got != 2 {
			t.Errorf("%d times: %s", got, e2e.Line(t, sent))
		}
		way := r.Nodes[2].Timestamp.Value.Sub(r.Nodes[0].Timestamp.Value) // from the times in the packet
		if d := time.Duration(r.PathDelay.Value) - way; !r.PathDelay.Valid || way <= 0 || d.Abs() > time.Microsecond {
			t.Errorf("path delay %+v ns, want %v", r.PathDelay, way)
		}
	}
	if diff := cmp.Diff(map[string]uint64{"traces": 2 * count, "hops": 6 * count, "traces_cut": 0}, map[string]uint64{
		"traces": stats.Counts["traces"], "hops": stats.Counts["hops"], "traces_cut": stats.Counts["traces_cut"]}); diff != "" {
		t.Error(diff)
	}
}

// awaitExporters waits until both sinks of aramis are connected.
func awaitExporters(t *testing.T, l *lab.Lab) {
	t.Helper()
	instance, err := l.Node("aramis").Instance()
	if err != nil {
		t.Fatal(err)
	}
	e2e.Await(t, "the exporters are connected", 20*time.Second, func() bool {
		status, err := api.NewClient(instance.Socket()).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		exporters := status.Records.Sinks
		return len(exporters) == 2 && !slices.ContainsFunc(exporters, func(e api.Sink) bool { return e.Connected == nil || !*e.Connected })
	})
}

// describe writes the ifalias of an interface, and waits until the agent has noticed.
func describe(t *testing.T, l *lab.Lab, node, name, text string) {
	t.Helper()
	if err := l.Node(node).Do(func() error {
		device, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkSetAlias(device, text)
	}); err != nil {
		t.Fatal(err)
	}
	instance, err := l.Node(node).Instance()
	if err != nil {
		t.Fatal(err)
	}
	e2e.Await(t, "the agent knows the description", 20*time.Second, func() bool {
		names, err := api.NewClient(instance.Socket()).Names(t.Context())
		return err == nil && names.Node(2) == node && names.Description(2, 202) == text
	})
}

// awaitExporter waits until the sinks of a node are connected.
func awaitExporter(t *testing.T, l *lab.Lab, node string) {
	t.Helper()
	instance, err := l.Node(node).Instance()
	if err != nil {
		t.Fatal(err)
	}
	e2e.Await(t, node+" is connected", 20*time.Second, func() bool {
		status, err := api.NewClient(instance.Socket()).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		exporters := status.Records.Sinks
		return len(exporters) > 0 && !slices.ContainsFunc(exporters, func(e api.Sink) bool { return e.Connected == nil || !*e.Connected })
	})
}

// checkShown checks what a person sees of a trace in 80 columns.
func checkShown(t *testing.T, r *record.Trace) {
	t.Helper()
	text := record.Brief(r, columns.Screen{Width: 80, ASCII: true})
	for _, want := range []string{"\n    athos    eth0 > eth1  ", "\n    porthos  eth0 > eth1  ", "\n    aramis   eth0 > -     "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if columns.Width(line) > 80 {
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
}
