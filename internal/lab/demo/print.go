// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"sync"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/record"
)

// printer writes the output: coloured blocks on a terminal, else one plain line for each
// event; or only the records, as JSON.
type printer struct {
	lock     sync.Mutex
	out      io.Writer
	terminal bool
	colour   bool
	json     bool
	every    bool // print the path of every packet, not only the first of a kind
	screen   columns.Screen
	hops     hops            // of all paths
	shown    map[string]bool // kinds of which a path was printed
	names    *nodenames.Names
	number   map[string]int // number of paths, by source
}

const (
	bold  = "1"
	faint = "2"
	green = "32"
	red   = "31"
	cyan  = "36"
)

func (p *printer) paint(code, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// line writes one line of prose.
func (p *printer) line(format string, args ...any) {
	if p.json {
		return
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	fmt.Fprintln(p.out, p.fold(fmt.Sprintf(format, args...)))
}

// heading begins a part.
func (p *printer) heading(format string, args ...any) {
	if p.json {
		return
	}
	text := fmt.Sprintf(format, args...)
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.terminal {
		text = "\n" + p.paint(bold, text)
	}
	fmt.Fprintln(p.out, p.fold(text))
}

// fold makes a text fit a terminal.
func (p *printer) fold(text string) string {
	if p.terminal {
		text = columns.Fold(text, p.screen.Width, "")
	}
	return p.screen.Text(text)
}

// way writes the path of one packet; of is the trace, or the path joined from
// postcards.
func (p *printer) way(source string, of record.Record, r *record.Trace) {
	if p.json {
		p.write(record.AppendLine(nil, of))
		return
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.number == nil {
		p.number = map[string]int{}
	}
	p.number[source]++
	r.Name(p.names)
	p.hops.add(r)
	if kind := source + " " + protocol(r.Packet.NextHeader); !p.every {
		if p.shown[kind] {
			return
		}
		if p.shown == nil {
			p.shown = map[string]bool{}
		}
		p.shown[kind] = true
	}
	if p.terminal {
		io.WriteString(p.out, p.screen.Text(p.block(p.number[source], r)))
		return
	}
	io.WriteString(p.out, p.screen.Text(p.plain(source, p.number[source], r)))
}

// write writes one line of JSON.
func (p *printer) write(line []byte) {
	p.lock.Lock()
	defer p.lock.Unlock()
	_, _ = p.out.Write(line) // if the reader has gone, SIGPIPE ends the program
}

// plain is one line:
// trace 1: udp [A]:P > [B]:Q 148 bytes: athos(1) in=… out=… hop-limit=63; …; end-to-end=…
func (p *printer) plain(source string, number int, r *record.Trace) string {
	return fmt.Sprintf(
		"%s %d: %s %s %d bytes: %s\n",
		source,
		number,
		protocol(r.Packet.NextHeader),
		r.Packet.Ends(),
		r.Packet.Length,
		r.PathLine(),
	)
}

// block is a heading above the path.
func (p *printer) block(number int, r *record.Trace) string {
	total := "not timed"
	if t, over, ok := r.Elapsed(); ok {
		total = record.Duration(t) + " " + string(over)
	}
	port := ""
	if r.Packet.DestinationPort != nil {
		port = fmt.Sprintf(" to port %d", *r.Packet.DestinationPort)
	}
	return fmt.Sprintf("%s %s%s, %d bytes  %s\n%s", p.paint(faint, fmt.Sprintf("%3d", number)),
		p.paint(bold, protocol(r.Packet.NextHeader)), port, r.Packet.Length, p.paint(cyan, total), r.PathText())
}
