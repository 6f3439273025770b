// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/bench/executed"
	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/model"
)

// Treatment is a packet that is forwarded fast, and what its program executes for it.
type Treatment struct {
	Name string         `json:"name"`
	Ours executed.Count `json:"ours"`
	Bare executed.Count `json:"bare"` // a bare prototype of the same work
}

// treatment is one as it is configured.
type treatment struct {
	step stepSpec
	bare harness.Bare
}

// treatments are the packets of the benchmark fast that have a bare prototype.
func treatments() []treatment {
	packet := harness.Plain(harness.Destination, sizeOfParts)
	one := oneNode(typeIDs)
	inner := harness.IPv6(harness.Source, harness.Destination, harness.NextUDP, harness.UDP(8))
	step := func(name string, config model.NodeConfig, frame []byte) stepSpec {
		return stepSpec{name: name, config: config, frame: frame, fast: true, unread: true}
	}
	exported := func(node string, config model.NodeConfig, frame []byte) stepSpec {
		s := step(exportAt(node)+", "+aggregated.name, exporting(config, model.ExportAggregate), frame)
		s.unread = false
		return s
	}
	x := directExport{flags: bothExtensions, kind: typeNodeID, role: model.RoleEncapsulating}
	option := directExportOption(x.kind, x.flags)
	return []treatment{
		{step("plain packets", nodeConfig(), packet), harness.Bare{}},
		{step("transit, ids", nodeConfig(), padded(sizeOfParts, trace(namespace, typeIDs))), fillingBare(1, typeIDs)},
		{step("transit, with timestamps", nodeConfig(), padded(sizeOfParts, trace(namespace, typeTimes))), fillingBare(1, typeTimes)},
		{step("encapsulation inline, ids", encapsulation(model.ModeInline, one), packet), adding(model.ModeInline, one)},
		{step("encapsulation in a tunnel, ids", encapsulation(model.ModeEncap, one), packet), adding(model.ModeEncap, one)},
		{step("decapsulation", removing(), tunnelled(inner, trace(namespace, typeIDs))), removingBare(tunnelHeaders)},
		{step("transit, a trace in each of 9 namespaces", nodeConfig(), padded(sizeOfNine, tracesInEach(mostOptions)...)), fillingBare(mostOptions, typeIDs)},
		{exported(insertion, x.triggered(nodeConfig(), 1), packet), adding(model.ModeInline, one)},
		{exported(transitTreatment, nodeConfig(), padded(sizeOfParts, option)), harness.Bare{}},
		{exported(decapsulating, removing(), tunnelled(inner, option)), removingBare(tunnelHeaders)},
	}
}

// Executed counts what programs execute for packets that are forwarded fast.
func Executed() (list []Treatment, err error) {
	p := &partsRun{steps: make(map[string]*step)}
	if p.site, err = harness.NewSite(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.site.Close()) }()
	if err := p.site.Add(0, liveStack, []harness.Treatment{untreated}, harness.Links{}); err != nil {
		return nil, err
	}
	p.node = p.site.Lines[liveStack].Nodes[0]
	err = harness.InNamespace(p.node.Namespace, func() error {
		release, err := harness.PinThread(0)
		if err != nil {
			return err
		}
		defer release()
		for _, t := range treatments() {
			counted, err := p.execute(t)
			if err != nil {
				return fmt.Errorf("%s: %w", t.step.name, err)
			}
			list = append(list, counted)
		}
		return nil
	})
	return list, err
}

func (p *partsRun) execute(t treatment) (out Treatment, err error) {
	out.Name = t.step.name
	s, err := p.loadStep(t.step)
	if err != nil {
		return out, err
	}
	defer s.node.Close()
	if out.Ours, err = p.executeTwice(s.program, s.frame, s.plane.Beat); err != nil {
		return out, err
	}
	bare, err := t.bare.Program()
	if err != nil {
		return out, err
	}
	defer bare.Close()
	out.Bare, err = p.executeTwice(bare, s.frame, func() error { return nil })
	if err != nil {
		return out, fmt.Errorf("the bare prototype: %w", err)
	}
	return out, nil
}

// xdpContext is struct xdp_md (include/uapi/linux/bpf.h).
type xdpContext struct{ Data, DataEnd, DataMeta, IngressIfindex, RxQueueIndex, EgressIfindex uint32 }

// executeTwice has the kernel run a program, which finds the next hop, and then again,
// and compares that with what is counted.
func (p *partsRun) executeTwice(program *ebpf.Program, frame []byte, beat func() error) (count executed.Count, err error) {
	of, err := executed.Open(program)
	if err != nil {
		return count, err
	}
	o := &ebpf.RunOptions{Data: frame}
	o.Context = xdpContext{DataEnd: uint32(len(frame)), IngressIfindex: uint32(p.node.InIndex())}
	var verdict uint32
	// The first run finds the next hop; the second shows what is made of the packet.
	for range 2 {
		if err := beat(); err != nil {
			return count, err
		}
		o.DataOut, o.ContextOut = make([]byte, len(frame)+1024), make([]byte, unsafe.Sizeof(xdpContext{}))
		if verdict, err = program.Run(o); err != nil {
			return count, fmt.Errorf("run it: %w", err)
		}
	}
	now, err := executed.Now()
	if err != nil {
		return count, err
	}
	count, err = of.XDP(frame, uint32(p.node.InIndex()), now)
	switch {
	case err != nil:
		return count, err
	case verdict != xdpRedirected:
		return count, fmt.Errorf("the kernel says %d: it is not forwarded", verdict)
	case count.Verdict != verdict:
		return count, fmt.Errorf("the kernel says %d, the interpreter %d", verdict, count.Verdict)
	case len(count.Packet) != len(o.DataOut) || differ(count.Packet, o.DataOut) > timestampBytes:
		return count, fmt.Errorf("the kernel makes of the packet\n%x, the interpreter\n%x", o.DataOut, count.Packet)
	}
	return count, nil
}

const (
	xdpRedirected = 4
	// timestampBytes is how many bytes differ because time goes on.
	timestampBytes = 8
)

func differ(a, b []byte) (n int) {
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

// InstructionsOf are the instructions that our programs execute.
func InstructionsOf(list []Treatment) Instructions {
	out := Instructions{Kernel: kernelSeries(), Counts: make(map[string]uint32)}
	for _, t := range list {
		out.Counts[t.Name] = uint32(t.Ours.Instructions)
	}
	return out
}

// WriteExecuted prints the counts as a table, and the source files in which they lie.
func WriteExecuted(w io.Writer, list []Treatment) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TREATMENT\tPROGRAM\tINSTRUCTIONS\tLINES OF MAPS\tOF THE PACKET\tKERNEL'S FUNCTIONS\tCALLS\tATOMIC")
	for _, t := range list {
		for _, each := range []struct {
			name string
			executed.Count
		}{{"ours", t.Ours}, {"bare", t.Bare}} {
			fmt.Fprintf(
				table,
				"%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n",
				t.Name,
				each.name,
				each.Instructions,
				each.MapLines,
				each.PacketLines,
				each.Called(),
				each.Calls,
				each.Atomics,
			)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var text bytes.Buffer
	for _, t := range list {
		fmt.Fprintf(&text, "\n%s:", t.Name)
		for _, file := range mostFirst(t.Ours.Files) {
			fmt.Fprintf(&text, " %s %d", file, t.Ours.Files[file])
		}
		fmt.Fprintf(&text, "; %v, bare: %v\n", t.Ours.HelperNames(), t.Bare.HelperNames())
	}
	_, err := w.Write(text.Bytes())
	return err
}

// WriteLines prints how many instructions are of each line of our programs' source.
func WriteLines(w io.Writer, list []Treatment) error {
	var text bytes.Buffer
	for _, t := range list {
		fmt.Fprintf(&text, "%s\n", t.Name)
		lines := slices.Collect(maps.Keys(t.Ours.Lines))
		slices.SortFunc(lines, func(a, b executed.Line) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Number, b.Number))
		})
		for _, l := range lines {
			fmt.Fprintf(&text, "%6d %s:%d\n", t.Ours.Lines[l], l.File, l.Number)
		}
	}
	_, err := w.Write(text.Bytes())
	return err
}

func mostFirst(counts map[string]int) (names []string) {
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	return names
}
