// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/srv6"
)

// Instructions is how many instructions the kernel's verifier processed, by
// program: a hook and the configuration of the program. The number shows how near
// a program is to the kernel's limit of a million, and whether a change made
// loading slower. Or it is how many are executed for a packet, by treatment.
type Instructions struct {
	Kernel string // series, such as "6.18", because verifiers differ
	Counts map[string]uint32
}

// growth is how far a program may exceed the committed table.
const growth = 1.05

// hooks are the hooks whose programs are counted.
var hooks = []datapath.Hook{datapath.HookIngressXDP, datapath.HookIngressTC, datapath.HookEgressTC}

// instructionConfigs are configurations that leave different parts of the
// programs once constants are known, and one that leaves everything.
func instructionConfigs() map[string]datapath.Config {
	cost := costConfigs()
	mainline := cost["transit"]
	mainline.Compatibility = model.CompatibilityMainline
	configs := map[string]datapath.Config{
		"inline":           {Node: cost[encapsulating(model.ModeInline, typeIDs, 1)]},
		"tunnel":           {Node: cost[encapsulating(model.ModeEncap, typeIDs, 1)]},
		"sampling":         {Node: cost["sample"]},
		"all":              {Node: allFeatures()},
		"transit mainline": {Node: mainline},
	}
	for _, same := range []string{"transit", "decapsulate", "edge drop", "edge strip", "edge ignore", "edge guard"} {
		configs[same] = datapath.Config{Node: cost[same]}
	}
	for name, config := range map[string]string{
		"exporting encapsulation": exportingEncapsulation + "aggregate", "exporting decapsulation": exportingDecapsulation + "aggregate",
		"every, transit": exportingTransit + "every", "aggregate, transit": exportingTransit + "aggregate",
	} {
		configs[name] = datapath.Config{Node: cost[config]}
	}
	for _, fast := range []string{"transit", "all", "aggregate, transit"} {
		configs[fast+" fast"] = datapath.Config{Node: configs[fast].Node, Fast: map[model.IfIndex]bool{ours: true}}
	}
	return configs
}

// allFeatures is a node that uses every feature at once.
func allFeatures() model.NodeConfig {
	c := encapsulation(model.ModeEncap, oneNode(typeAll))
	c.Namespaces[0].Schema = &model.Schema{ID: 777, Data: []byte("rack 7")}
	c.Encapsulations[0].Options[0].Trace.Size += 8 // the schema's data
	c.Namespaces = append(c.Namespaces, model.Namespace{ID: namespaceRemoved, Remove: true})
	c.Decapsulations = []model.Decapsulation{
		{TunnelDestination: harness.TunnelEnd, Sources: []netip.Prefix{netip.PrefixFrom(harness.TunnelStart, 64).Masked()}},
	}
	c.Namespaces[1].Incremental = true
	udp, class, label := ioam.NextHeader(harness.NextUDP), uint8(0x2e), uint32(0x12345)
	c.Encapsulations = append(c.Encapsulations, model.Encapsulation{
		Name: "every criterion", Interface: ours, Mode: model.ModeInline, Frequency: model.Frequency{K: 3, N: 7},
		Budget: model.Budget{Packets: 100_000, Octets: 50_000},
		Match: model.Match{
			Destination: netip.PrefixFrom(harness.Elsewhere, 64).Masked(), Source: netip.PrefixFrom(harness.Source, 64).Masked(),
			NextHeader: &udp, SourcePort: &model.PortRange{From: 1, To: 4242}, DestinationPort: &model.PortRange{From: 9, To: 9},
			TrafficClass: &class, FlowLabel: &label,
		},
		Options: model.Traces(model.TraceOption{Namespace: namespace, Type: typeDelay, Size: 4 * typeDelay.NodeLen()},
			model.TraceOption{Namespace: namespace + 1, Type: typeDelay, Size: 8 * typeDelay.NodeLen(), Incremental: true}),
	})
	c.Measurement.Flows = []model.MeasuredFlow{measuredFlow("out", model.DirectionOut), measuredFlow("in", model.DirectionIn)}
	return c
}

// measuredFlow is an SRv6 flow along two segments.
func measuredFlow(name string, direction model.Direction) model.MeasuredFlow {
	path := srv6.Path{Segments: []netip.Addr{harness.TunnelEnd, harness.Elsewhere}}
	return model.MeasuredFlow{Name: name, Direction: direction, Source: harness.Source, Path: path}
}

// CountInstructions loads every program in every configuration, as the agent would on this kernel, and says
// each one's number at once: on emulated machines, it takes minutes. Refused programs end up in the error.
func CountInstructions(said io.Writer) (Instructions, error) {
	counts := Instructions{Kernel: kernelSeries(), Counts: make(map[string]uint32)}
	configs := instructionConfigs()
	var refused []error
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if err := configs[name].Node.Validate(); err != nil {
			return Instructions{}, fmt.Errorf("configuration %q: %w", name, err)
		}
		for _, hook := range hooks {
			program := fmt.Sprintf("%s, %s", hook, name)
			n, err := countInstructions(configs[name], hook)
			if err != nil {
				refused = append(refused, fmt.Errorf("%s: %w", program, err))
				continue
			}
			counts.Counts[program] = n
			fmt.Fprintf(said, countFormat, n, program)
		}
	}
	return counts, errors.Join(refused...)
}

func countInstructions(config datapath.Config, hook datapath.Hook) (uint32, error) {
	runner, err := datapath.NewRunner(config, ours, hook)
	if err != nil {
		return 0, err
	}
	defer runner.Close()
	info, err := runner.Program(hook).Info()
	if err != nil {
		return 0, fmt.Errorf("read the program's data: %w", err)
	}
	n, _ := info.VerifiedInstructions()
	return n, nil
}

// kernelSeries is the running kernel's version without its patch level.
func kernelSeries() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	parts := strings.SplitN(unix.ByteSliceToString(name.Release[:]), ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

const (
	instructionsHead   = "# Instructions (docs/benchmarks/method.md). Write anew: make instructions"
	instructionsKernel = "# Linux "
	countFormat        = "%7d %s\n"
)

// WriteTo writes the table in the form that ReadInstructions reads.
func (i Instructions) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s%s\n", instructionsHead, instructionsKernel, i.Kernel)
	for _, name := range i.names() {
		fmt.Fprintf(&b, countFormat, i.Counts[name], name)
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

func (i Instructions) names() []string {
	names := make([]string, 0, len(i.Counts))
	for name := range i.Counts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ReadInstructions reads a committed table.
func ReadInstructions(path string) (Instructions, error) {
	f, err := os.Open(path)
	if err != nil {
		return Instructions{}, err
	}
	defer f.Close()
	table := Instructions{Counts: make(map[string]uint32)}
	lines := bufio.NewScanner(f)
	for number := 1; lines.Scan(); number++ {
		if kernel, ok := strings.CutPrefix(lines.Text(), instructionsKernel); ok {
			table.Kernel = kernel
			continue
		}
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		count, name, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		n, err := strconv.ParseUint(count, 10, 32)
		if err != nil {
			return Instructions{}, problem.New(fmt.Sprintf("%s:%d: want a number and a program", path, number), "write it anew: make instructions")
		}
		table.Counts[name] = uint32(n)
	}
	return table, lines.Err()
}

// Exceeding returns the programs that exceed the table by more than 5%, and those
// that are in only one of the two. Verifiers of different kernel series cannot be
// compared; that is an error.
func (i Instructions) Exceeding(table Instructions) ([]string, error) {
	if i.Kernel != table.Kernel {
		return nil, fmt.Errorf("the table is of Linux %s and this is %s", table.Kernel, i.Kernel)
	}
	var faults []string
	for _, name := range i.names() {
		was, ok := table.Counts[name]
		switch now := i.Counts[name]; {
		case !ok:
			faults = append(faults, fmt.Sprintf("%s: not in the table", name))
		case float64(now) > growth*float64(was):
			faults = append(faults, fmt.Sprintf("%s: %d instructions, %+.1f%% beyond the %d of the table",
				name, now, 100*(float64(now)/float64(was)-1), was))
		}
	}
	for _, name := range table.names() {
		if _, ok := i.Counts[name]; !ok {
			faults = append(faults, fmt.Sprintf("%s: in the table, but no such program is loaded", name))
		}
	}
	return faults, nil
}
