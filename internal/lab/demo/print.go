// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/waymark-net/waymark/internal/export"
)

// printer writes what happens: blocks with some colour on a terminal, else one
// plain ASCII line for each thing.
type printer struct {
	lock     sync.Mutex
	out      io.Writer
	terminal bool
	colour   bool
	names    *names
	number   int
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
	p.lock.Lock()
	defer p.lock.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// heading begins a part.
func (p *printer) heading(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.terminal {
		text = "\n" + p.paint(bold, text)
	}
	fmt.Fprintln(p.out, text)
}

// trace writes the way of one packet.
func (p *printer) trace(r *export.TraceRecord) {
	way := p.names.follow(r)
	p.lock.Lock()
	defer p.lock.Unlock()
	p.number++
	if p.terminal {
		io.WriteString(p.out, p.block(r, way))
		return
	}
	io.WriteString(p.out, p.plain(r, way))
}

// endpoint is an address with its port.
func endpoint(addr fmt.Stringer, port *uint16) string {
	if port == nil {
		return addr.String()
	}
	return fmt.Sprintf("[%v]:%d", addr, *port)
}

// plain is one line:
// trace 1: udp [A]:P > [B]:Q 148 bytes: athos(1) in=… out=… hop-limit=63; …; end-to-end=…
func (p *printer) plain(r *export.TraceRecord, way path) string {
	var b strings.Builder
	fmt.Fprintf(&b, "trace %d: %s %s > %s %d bytes:", p.number, protocol(r.Packet.NextHeader),
		endpoint(r.Packet.Source, r.Packet.SourcePort), endpoint(r.Packet.Destination, r.Packet.DestinationPort), r.Packet.Length)
	for _, h := range way.hops {
		fmt.Fprintf(&b, " %s in=%s out=%s hop-limit=%s", h.node, h.in, h.out, h.hopLimit)
		if h.timed {
			fmt.Fprintf(&b, " hop-delay=%s", micros(h.since, "us"))
		}
		if h.measured {
			fmt.Fprintf(&b, " transit-delay=%s", micros(h.held, "us"))
		}
		b.WriteByte(';')
	}
	if way.overflow {
		b.WriteString(" overflow;")
	}
	if way.timed {
		fmt.Fprintf(&b, " end-to-end=%s", micros(way.total, "us"))
	}
	return strings.TrimSuffix(b.String(), ";") + "\n"
}

// block is a heading with one aligned line for each node.
func (p *printer) block(r *export.TraceRecord, way path) string {
	var b strings.Builder
	total := "not timed"
	if way.timed {
		total = micros(way.total, "µs") + " end to end"
	}
	port := ""
	if r.Packet.DestinationPort != nil {
		port = fmt.Sprintf(" to port %d", *r.Packet.DestinationPort)
	}
	fmt.Fprintf(&b, "%s %s%s, %d bytes  %s\n", p.paint(faint, fmt.Sprintf("%3d", p.number)),
		p.paint(bold, protocol(r.Packet.NextHeader)), port, r.Packet.Length, p.paint(cyan, total))
	for _, h := range way.hops {
		line := "    " + pad(h.node, 12) + pad(h.in+" → "+h.out, 23) + pad("hop limit "+h.hopLimit, 15)
		if h.timed {
			line += pad("+"+micros(h.since, "µs"), 14)
		}
		if h.measured {
			line += "held " + micros(h.held, "µs")
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if way.overflow {
		b.WriteString("    " + p.paint(red, "the trace had no room for every node") + "\n")
	}
	return b.String()
}

// pad fills up to a width of characters and keeps two blanks in any case.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 2))
}

func micros(d time.Duration, unit string) string {
	return fmt.Sprintf("%.1f%s", float64(d)/float64(time.Microsecond), unit)
}
