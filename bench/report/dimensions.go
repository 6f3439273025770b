// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
)

// Dimensions say what a variant of a benchmark is. Their values can be compared;
// String makes the sentence for readers from them, and that sentence is never
// parsed.
type Dimensions struct {
	Treatment string `json:"treatment,omitempty"` // what is done to packets, or what is measured
	By        Worker `json:"by,omitempty"`
	Hook      string `json:"hook,omitempty"`
	Outcome   string `json:"outcome,omitempty"`
	Format    string `json:"format,omitempty"`   // of the packets, or of what is added to them
	NoCache   bool   `json:"no_cache,omitempty"` // the kernel is asked for the next hop of every packet
	Sink      string `json:"sink,omitempty"`     // the hook at which packets end
	Queues    int    `json:"queues,omitempty"`   // of each link; 0: one for each CPU
	Flows     int    `json:"flows,omitempty"`
	NumberOf  string `json:"number_of,omitempty"` // what x counts

	// These divide a figure into panels: the way that packets take, what is
	// compared, with which export, and the length of packets in bytes.
	Way        Way        `json:"way,omitempty"`
	Comparison Comparison `json:"comparison,omitempty"`
	Export     string     `json:"export,omitempty"`
	Size       int        `json:"size,omitempty"`
}

// Worker says whose work is measured; ours when empty.
type Worker string

// Workers that are not ours.
const (
	ByKernel       Worker = "kernel"         // no program, no IOAM
	ByKernelIOAM   Worker = "kernel_ioam"    // the kernel's own IOAM
	ByEmptyProgram Worker = "empty_programs" // programs that do nothing
	ByBareProgram  Worker = "bare_program"   // a program that does one thing to all packets
	ByTwin         Worker = "twin"           // what others are compared with, a second time
)

// Way is how a node forwards.
type Way string

// The ways.
const (
	WayStack Way = "stack"
	WayFast  Way = "fast"
)

func (w Way) words() string {
	if w == WayFast {
		return "fast forwarding"
	}
	return "through the stack"
}

// Comparison says what a panel of a figure compares.
type Comparison string

// The comparisons.
const (
	ByParameter   Comparison = "parameter" // by a parameter of a node that exports
	AsInPaper     Comparison = "paper"     // with the parameters of the paper on Direct Export
	AgainstKernel Comparison = "kernel"    // with the kernel's plain forwarding
	AgainstOneCPU Comparison = "one_cpu"   // with the same node on one CPU
)

// String is the sentence: the variant, then its panel.
func (d Dimensions) String() string {
	if panel := d.panel(); panel != "" {
		return d.name() + ", " + panel
	}
	return d.name()
}

// name is the sentence without the dimensions that divide a figure.
func (d Dimensions) name() string {
	var words []string
	add := func(is bool, format string, args ...any) {
		if is {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(d.Way == WayFast && !d.inPanel(), "%s", d.Way.words())
	switch {
	case d.Outcome != "":
		add(true, "%s: %s", d.Hook, d.Outcome)
	case d.Hook != "":
		add(true, "%s at %s", d.Treatment, d.Hook)
	default:
		add(true, "%s", d.Treatment)
	}
	add(d.Format != "", "%s", d.Format)
	add(d.NoCache, "no cache")
	add(d.Sink != "", "sink in %s", d.Sink)
	add(d.Queues == 1, "one queue")
	add(d.Flows > 0, "flows: %d", d.Flows)
	add(d.NumberOf != "", "by %s", d.NumberOf)
	return strings.Join(words, ", ")
}

// inPanel reports whether the variant is in one of several panels.
func (d Dimensions) inPanel() bool { return d.Size > 0 }

// panel is the title of the figure's panel that shows the variant.
func (d Dimensions) panel() string {
	if !d.inPanel() {
		return ""
	}
	size := fmt.Sprintf("%d bytes", d.Size)
	switch {
	case d.Comparison == ByParameter:
		return fmt.Sprintf("by parameter: %s, %s, %s", d.Export, d.Way.words(), size)
	case d.Comparison == AsInPaper:
		return "as in the paper, " + size
	case d.Comparison == AgainstKernel:
		return "against the kernel's plain forwarding, " + size
	case d.Comparison == AgainstOneCPU:
		return d.Way.words() + " against one CPU, " + size
	case d.Way != "":
		return d.Way.words() + ", " + size
	}
	return size
}
