// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const intro = `# Benchmarks

What the data plane costs, with the machine it was measured on. Every figure is a
comparison within one run: a variant and its baseline take turns, the order is
turned round every time, and the tables give medians and the distance between
the quartiles ("spread"). A figure of one machine says little about another; the
ratios travel better.

## How to repeat

` + "```sh" + `
make bench                        # all of it in short, in less than ten minutes
make benchmarks                   # in earnest, about an hour: writes bench/results and this page
make benchmarks NAMES=frequency   # the same with one of them anew
bin/waymark-bench run frequency --json --plot frequency.svg
` + "```" + `

` + "`make benchmarks`" + ` goes on when one of them fails, and writes what it has when it is
interrupted.

Run it as root on a machine that does nothing else. ` + "`--duration`" + ` and ` + "`--rounds`" + ` say how
long and how often. ` + "`--json`" + ` has every figure with machine, kernel, versions and
commit.

| name | what it measures |
|---|---|
`

const method = `
An experiment is a table of variants: what is sent, what each node on the way does
with it, what must arrive and what the nodes must count. A new one is a new table,
in ` + "`bench/papers.go`, `bench/dexpaper.go`, `bench/forwarding.go` or `bench/scale.go`" + `.

## How packets per second are measured

` + "```" + `
source s ──── n0 node n1 ──── n0 node n1 ──── k sink
` + "```" + `

Network namespaces on veth pairs that receive with NAPI (generic receive offload
on), one for each node and one for all sources and sinks. The lines of all variants
stand side by side, so that a variant and its baseline take turns within
milliseconds. The source runs an XDP program on live frames in batches of 64 and
redirects them into the link; frames are recycled, so it writes the headers anew
each time. Neighbours are permanent. The sink counts per CPU and drops in tc: an
XDP program there would make the kernel reallocate every packet that has grown.
Where fast forwarding is measured, a sink in XDP is measured beside that, against a
baseline with the same sink. What the sink counted is divided by the time, in
windows of 10 ms while nothing but sending goes on; the mean of their middle half is
one turn's figure. Source, nodes and sink share one CPU, unless more are named, and
the time of the ends is part of every packet's: a node alone loses more than the
ratio says. Before it is measured, each variant is held to what a packet looks like
at the sink, and every time to the nodes' counters.

"Hooks alone" has programs that do nothing where ours would be: what is lost with
them the kernel takes for its hooks, and no program can do better.

Where an aim is missed, it says what sets the limit and how far from it we are, in
nanoseconds per packet: those of the rate, less what the same experiment, or
` + "`forwarding`" + `, has for the limit. What our programs take of the distance is from ` + "`parts`" + `
and ` + "`cost`" + `, where caches are warm; the rest is what live packets cost them beyond
that, and what the measurements' spread leaves open.

## How Direct Export is measured

As above, with an option in one of 1, 10 or 100 packets. On its way, and where it is
removed, the source sends them among plain packets of the same length; where it is
inserted, the node chooses. A variant takes turns with the same node without anything
of Direct Export in its configuration, which gets plain packets from a source that
does the same work, and where the ways to export are compared, with the kernel's
plain forwarding too. Up to six variants that are compared with the same share a turn.

"By parameter" has ` + "`every`, `aggregate` and `sample`" + `, through the stack and with fast
forwarding; "as in the paper" has its nine percentages, with postcards that are read.
A tunnel's source is given, or derived: the node then asks the kernel once, as an agent
does. Forwarded packets get a tunnel in mode ` + "`auto`" + `. In short, ` + "`make bench`" + ` measures 1, 10
and 100%, "by parameter" at 100%, and three of the paper's nine trace types.

"Against the kernel's plain forwarding" says what exports have no part in: what the
kernel alone takes to forward packets that have the option instead of plain ones of
the same length, and what our programs take when nothing of Direct Export is configured.
Where the option is removed, they take the tunnel off all the same.

The programs' samples are read in the same process as an agent reads them, by
threads that are kept off the CPU of source, node and sink: postcards are thrown
away, or go through the agent's own IPFIX exporter into a UDP socket, which is read.
Flows are collected each second. After each turn, the programs' counters must show a
postcard for every export that asked for one, written or lost in its ring; none may
be suppressed, and the exporter gets time to finish. At the end, flows must
have told of each packet that was added to them. What was lost is in the table and,
as numbers, in the JSON (` + "`exports`" + `): lost in a ring when its reader is too slow,
dropped when the exporter's queue is full.

## How the exporter is measured

A process of its own, kept to one CPU, makes records as an agent does, encodes them and
sends them over UDP on the loopback interface, in messages of 1452 octets; a process
on another CPU receives them. The processor time of all its threads, the kernel's
work for them included, is divided by the records that were sent; a run in which one
was dropped is refused. The baseline makes the same records and throws them away.
Resident memory is what it holds at the end.

## How added delay is measured

Packets set out one by one, with the time in their last 8 bytes; the sink compares.
The least of thousands is the delay of a packet that nothing disturbs, caches warm;
that of plain packets through an untreated node is taken off. It steers clear of
what else a machine does, and says less about packets in batches, which the kernel
handles together where it can, than packets per second do.

## How the cost of an outcome is measured

The kernel's program-run facility repeats a program over one packet, which stays
as the program left it: a second run would meet a filled trace or a shorter
frame. A small program therefore puts the frame back (its length, then the bytes
that change) and calls the program under test, unmodified, by a tail call. The
baseline is the same with a plain IPv6 packet of the same length that no
configuration asks anything of; restoring costs both the same and cancels. The
counters must show that every single repetition had the outcome.

Where an outcome changes the length, restoring it is work that the baseline does
not have. It is measured beside the variant, in turns of 8 growths and one
shrinking and of one growth and 8 shrinkings, solved for the one that was needed
and taken off; the tables show how much that was.

Records are read between the runs, never while a packet is timed. "Completing" at
the egress hook is counted as ` + "`trace_filled`" + ` too: a forwarded packet meets both hooks.

## How the parts of the way are measured

By the same facility: programs and packets that differ by one part of the way each
(a packet that ends before the lookup and one that ends behind it, a next hop in the
cache and none) take turns in one run, on frames of one length of which the same
bytes are put back, and a part is the difference. What the kernel takes is measured
with live frames: for redirecting, what is left of a packet's time; for the hooks of
the stack, the difference between a node with a program that does nothing in one of
them and a node without, in turns of 40 ms.

## How the number of instructions is held

` + "`make check`" + ` (root) counts the instructions that the kernel's verifier looks at in every
program, in configurations from a mere edge to all features at once, and fails when
one has more than 5% above [bench/instructions.txt](../bench/instructions.txt).
` + "`make instructions`" + ` writes that table anew.

## The experiments of the papers

| | |
|---|---|
`

const differences = `
Frames, headers and frequencies are those of the papers: 78 bytes are what pktgen
sends at least (Ethernet 14, IPv6 40, UDP 8, its own 16), 1236 leave room for 264
more, one trace of one field for three hops and a tunnel adds 72. What is called an
option there is a field of the trace: 1 to 9 add 72, 80, 96, 104, 120, 128, 152, 176
and 200 bytes, as here. What is different:

- **The wire.** They have network cards; here it is veth, on one machine. Nothing is
  held back by a line rate: 1236-byte packets filled 40 Gb/s in paper A long before
  the processors were busy, which hid most of the cost.
- **The cores.** In paper A each node is a machine of 8 cores, in paper B the nodes of
  one machine work at the same time on 16. Here source, nodes and sink take turns
  on one core: on a line of three nodes, the costs of all three add up.
- **Who is measured.** For paper A, each node alone, with packets as they reach it; for
  paper B, a line of three with insertion inline.
- **The source.** Live frames of the program-run facility instead of pktgen. Packets are
  counted at the sink, so no rate is estimated from bytes, as theirs is.
- **Registered, no IOAM.** Our programs run and look at every packet, theirs were
  compiled in and not registered.
- **9 options.** The kernel drops headers with more than 8 options. Nodes here have
  ` + "`net.ipv6.max_hbh_opts_number`" + ` set to 32.
- **Delay.** Paper B does not say how it was measured.
- **Statistics.** Medians and quartiles of turns instead of means of 10 to 30 runs.
- **Direct Export.** Paper C's nodes send one netlink message for each packet, and are
  compared with the kernel's plain forwarding of 1.07 million packets per second. Here
  the baseline is the same node without Direct Export, our programs attached; "against
  plain packets" is the comparison with the kernel's plain forwarding. The authors' own
  data give a loss of about 12% for insertion in 1% of the packets, their text at most 7.49%.
  A source that their kernel finds for each packet is found once here.

What was published is shown in figures as hollow marks in the shape and colour of our
curve beside it, and as hollow diamonds on bars, as far as the text or the authors' own
data give numbers: none was read off a curve. Ratios are to the paper's own kernel
without IOAM.

| experiment | beside | x | published | from | as |
|---|---|---|---|---|---|
`

// Markdown is docs/benchmarks.md for the results. It shows the figures that
// Plot draws of them, in benchmarks/NAME.svg.
func Markdown(results []Result) ([]byte, error) {
	papers, err := papersValues()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(intro)
	for _, each := range All() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", each.Name, each.Title)
	}
	b.WriteString(method)
	papers.write(&b)
	for _, r := range ordered(results) {
		r.write(&b, results)
	}
	if len(results) == 0 {
		b.WriteString("\n## Results\n\nNone are committed yet.\n")
	}
	b.WriteString("\n<!-- Generated by waymark-bench report: change the code, not this file. -->\n")
	return []byte(b.String()), nil
}

// ordered has results as All has benchmarks.
func ordered(results []Result) []Result {
	at := make(map[string]int)
	for i, b := range All() {
		at[b.Name] = i
	}
	results = slices.Clone(results)
	slices.SortStableFunc(results, func(a, b Result) int { return at[a.Name] - at[b.Name] })
	return results
}

// write adds the papers and what they published.
func (p publication) write(b *strings.Builder) {
	for _, key := range slices.Sorted(maps.Keys(p.Papers)) {
		each := p.Papers[key]
		fmt.Fprintf(b, "| paper %s | *%s*, %s. %s. |\n", key, each.Title, each.Authors, each.Setup)
	}
	b.WriteString(differences)
	for _, v := range p.Values {
		var losses []string
		for _, ratio := range v.Ratios {
			loss := percent(ratio)
			if ratio == 1 {
				loss = "±0%"
			}
			losses = append(losses, loss)
		}
		xs := strings.Trim(fmt.Sprint(v.X), "[]")
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n",
			v.Experiment, v.Beside, strings.ReplaceAll(xs, " ", ", "), strings.Join(losses, ", "), v.source(), v.Read)
	}
	for _, m := range p.Missing {
		fmt.Fprintf(b, "\n*%s*, paper %s, figure %s: %s\n", m.Experiment, m.Paper, m.Figure, m.Why)
	}
}

// write adds a result; all are those that it may refer to.
func (r Result) write(b *strings.Builder, all measured) {
	fmt.Fprintf(b, "\n## Results: %s\n\n![%s](benchmarks/%s.svg)\n\n", r.Name, r.heading(), r.Name)
	fmt.Fprintf(b, "%s, %s; %s, %d rounds", r.Machine, r.Kernel, r.Time.Format(time.RFC3339), r.Rounds)
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(b, "; %s %s", name, r.Versions[name])
	}
	fmt.Fprintf(b, ".\nBaseline: %s.\nColumn \"%s\": %s.\n\n", r.Baseline, r.xName(), r.Axis)
	r.aims(b, all)
	r.prices(b)
	r.table(b)
	for _, note := range r.Notes {
		fmt.Fprintf(b, "\n%s\n", note)
	}
}

// aims says plainly which aims were missed, and by how much.
func (r Result) aims(b *strings.Builder, all measured) {
	aims, missed, limits := 0, "", r.limits()
	for _, p := range r.Points {
		if p.Aim == 0 && p.PlainAim == 0 {
			continue
		}
		if aims++; !p.Met() {
			missed += "- " + r.distance(p, limits[[2]any{p.Variant, p.X}], all) + "\n"
		}
	}
	if aims == 0 {
		return
	}
	fmt.Fprintf(b, "Of %d aims, %d were met.", aims, aims-strings.Count(missed, "\n"))
	if missed != "" {
		b.WriteString(" Missed:\n\n" + missed)
	} else {
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// prices says what part of a loss is the kernel's, and what our programs take
// before anything is exported, with the option in every packet.
func (r Result) prices(b *strings.Builder) {
	for _, size := range []int{shortPacket, longPacket} {
		ratios := make(map[string]float64)
		for _, p := range r.Points {
			if name, panel := split(p.Variant); panel == sized(againstKernel, size) && p.X == 100 {
				ratios[name] = p.Ratio
			}
		}
		if len(ratios) > 0 {
			fmt.Fprintf(b, "With the option in every packet, %d bytes, and nothing of it configured: %s for the kernel alone, %s with our programs; %s for plain packets with them.\n",
				size, percent(ratios[kernelWithOption]), percent(ratios[oursWithOption]), percent(ratios[oursWithout]))
		}
	}
	if r.any(func(p Point) bool { return strings.Contains(p.Variant, againstKernel) }) {
		b.WriteString("\n")
	}
}

func (r Result) table(b *strings.Builder) {
	columns := r.columns()
	for _, c := range columns {
		fmt.Fprintf(b, "| %s ", c.title)
	}
	b.WriteString("|\n" + strings.Repeat("|---", len(columns)) + "|\n")
	for _, p := range r.Points {
		for _, c := range columns {
			fmt.Fprintf(b, "| %s ", c.value(p))
		}
		b.WriteString("|\n")
	}
}
