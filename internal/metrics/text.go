// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	process "github.com/VictoriaMetrics/metrics"
)

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// text is the exposition in the text format: metrics by name, series by label. Histograms have
// their classic buckets.
func (g *Gatherer) text() []byte {
	var b bytes.Buffer
	for _, f := range g.sorted() {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", f.Name, helpEscapes.Replace(f.Help), f.Name, kindNames[f.kind()])
		for i := range f.series {
			f.series[i].write(&b, f.Desc)
		}
	}
	if g.process {
		writeProcess(&b)
	}
	return b.Bytes()
}

func writeProcess(b *bytes.Buffer) {
	var text bytes.Buffer
	process.WriteProcessMetrics(&text)
	process.WriteFDMetrics(&text)
	for line := range strings.Lines(text.String()) {
		b.WriteString(described(line))
	}
}

// described completes a line of the library of process metrics, which writes no help, and calls the
// totals of /proc/self/io gauges.
func described(line string) string {
	words := strings.Fields(line)
	switch {
	case len(words) == 3 && words[1] == "HELP" && strings.HasPrefix(words[2], "go_"):
		return fmt.Sprintf("# HELP %s Of the runtime of Go (package runtime/metrics, or runtime.MemStats).\n", words[2])
	case len(words) == 3 && words[1] == "HELP":
		return fmt.Sprintf("# HELP %s Of this process, as the kernel counts it (/proc/self).\n", words[2])
	case len(words) == 4 && words[1] == "TYPE" && words[3] == kindNames[gauge] && strings.HasSuffix(words[2], "_total"):
		return fmt.Sprintf("# TYPE %s %s\n", words[2], kindNames[counter])
	}
	return line
}

func (s *series) write(b *bytes.Buffer, d *Desc) {
	if s.histogram == nil {
		writeLine(b, d.Name, s.labels, number(s.value))
		return
	}
	before := s.labels
	if before != "" {
		before += ","
	}
	for i, bound := range d.Bounds {
		writeLine(b, d.Name+"_bucket", before+`le="`+number(bound)+`"`, strconv.FormatUint(s.histogram.cumulative[i], 10))
	}
	count := strconv.FormatUint(s.histogram.count, 10)
	writeLine(b, d.Name+"_bucket", before+`le="+Inf"`, count)
	writeLine(b, d.Name+"_sum", s.labels, number(s.histogram.sum))
	writeLine(b, d.Name+"_count", s.labels, count)
}

func writeLine(b *bytes.Buffer, name, labels, value string) {
	b.WriteString(name)
	if labels != "" {
		b.WriteString("{" + labels + "}")
	}
	b.WriteString(" " + value + "\n")
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
