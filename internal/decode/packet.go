// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

const (
	ipv6HeaderLen = 40
	maxTunnels    = 8 // IPv6 headers in front of one another
)

// Found is what one packet carried.
type Found struct {
	Records []record.Record       // of the options that are known, in their order
	Others  map[ioam.IOAMType]int // other IOAM options
	Faults  []error               // what could not be read
}

// Find finds the IOAM of a packet: in the Hop-by-Hop and Destination Options
// headers, of the packet itself and of the IPv6 packets that it tunnels.
func Find(p Packet, clock record.Clock) Found {
	found := Found{Others: map[ioam.IOAMType]int{}}
	w := walker{packet: p, clock: clock, found: &found}
	ip, err := p.Link.ipv6(p.Data)
	if err != nil && len(p.Data) < p.Length { // else the packet was this short on the wire
		found.Faults = append(found.Faults, w.cut(err))
	}
	if ip == nil {
		return found
	}
	w.walk(ip, p.Length-(len(p.Data)-len(ip)), 0)
	return found
}

type walker struct {
	packet Packet
	clock  record.Clock
	found  *Found
	base   int // offset of the IPv6 header that is being read, from the outermost
}

func (w *walker) fault(offset int, err error) {
	w.found.Faults = append(w.found.Faults, fmt.Errorf("IPv6 packet, offset %d: %w", w.base+offset, w.cut(err)))
}

// cut names the snap length as the likely cause of err, if it cut the packet.
func (w *walker) cut(err error) error {
	if kept := len(w.packet.Data); kept < w.packet.Length {
		return fmt.Errorf("%w (the capture kept %d of the packet's %d bytes; capture with a larger snap length)", err, kept, w.packet.Length)
	}
	return err
}

// walk reads one IPv6 packet; wire is its length on the wire, link padding
// included.
func (w *walker) walk(ip []byte, wire int, tunnels int) {
	if len(ip) < ipv6HeaderLen || ip[0]>>4 != 6 {
		w.fault(0, errors.New("incomplete IPv6 header"))
		return
	}
	length := wire
	// A payload length of 0 means a jumbogram (RFC 2675 §3).
	if payload := int(binary.BigEndian.Uint16(ip[4:])); payload != 0 {
		length = ipv6HeaderLen + payload
	}
	ip = ip[:min(len(ip), length)]
	headers, next, at := w.headers(ip)
	subject, inner := ip, length
	tunnel := next == ioam.NextHeaderIPv6 && tunnels < maxTunnels
	if tunnel {
		at = min(at, len(ip)) // cut: the inner packet reports the error
		subject, inner = ip[at:], length-at
	}
	summary, ok := record.ParsePacket(subject, innerLength(subject, inner))
	if !ok {
		summary, _ = record.ParsePacket(ip, length)
	}
	for _, h := range headers {
		w.options(h, summary)
	}
	if tunnel {
		w.base += at
		w.walk(subject, inner, tunnels+1)
	}
}

// innerLength is a packet's length by its own header, else by the packet around it.
func innerLength(ip []byte, around int) int {
	if len(ip) >= ipv6HeaderLen {
		if payload := int(binary.BigEndian.Uint16(ip[4:])); payload != 0 {
			return ipv6HeaderLen + payload
		}
	}
	return around
}

// header is an extension header that may hold options, and where it stands.
type header struct {
	ioam.ExtensionHeader
	offset int
}

// errNoWholeHeader is the error of an incomplete extension header without options: IOAM
// may follow it.
var errNoWholeHeader = errors.New("incomplete extension header (RFC 8200 §4)")

// headers lists the headers with options, and finds what follows all
// extension headers.
func (w *walker) headers(ip []byte) (list []header, next ioam.NextHeader, at int) {
	next, at = ioam.NextHeader(ip[6]), ipv6HeaderLen
	for range ipv6.MaxExtensionHeaders {
		rest := ip[min(at, len(ip)):]
		switch next {
		case ioam.NextHeaderHopByHop, ioam.NextHeaderDestination:
			h, err := ioam.DecodeExtensionHeader(rest)
			if err != nil {
				w.decodeFault(at, err)
				return list, ioam.NextHeaderNone, at
			}
			list = append(list, header{h, at})
			next, at = h.NextHeader, at+len(h.Bytes)
		case ioam.NextHeaderRouting, ioam.NextHeaderAH:
			if len(rest) < 8 {
				w.fault(at, errNoWholeHeader)
				return list, ioam.NextHeaderNone, at
			}
			size := (int(rest[1]) + 1) * 8
			if next == ioam.NextHeaderAH {
				size = (int(rest[1]) + 2) * 4 // RFC 4302 §2.2
			}
			next, at = ioam.NextHeader(rest[0]), at+size
		case ioam.NextHeaderFragment:
			if len(rest) < 8 {
				w.fault(at, errNoWholeHeader)
				return list, ioam.NextHeaderNone, at
			}
			if binary.BigEndian.Uint16(rest[2:])>>3 != 0 {
				// Only the first fragment has what follows (RFC 8200 §4.5).
				return list, ioam.NextHeaderNone, at
			}
			next, at = ioam.NextHeader(rest[0]), at+8
		default:
			return list, next, at
		}
	}
	return list, next, at
}

// options reads the options of one header.
func (w *walker) options(h header, summary record.Packet) {
	for option, err := range h.Options() {
		if err != nil {
			w.decodeFault(h.offset, err)
			return
		}
		if !option.IsIOAM() {
			continue
		}
		o, err := option.IOAM()
		if err != nil {
			w.decodeFault(h.offset, err)
			continue
		}
		switch {
		case o.Type.IsTrace():
			w.trace(h, o, summary)
		case o.Type == ioam.IOAMDirectExport:
			w.directExport(h, o, summary)
		case o.Type == ioam.IOAMEdgeToEdge:
			w.edgeToEdge(h, o, summary)
		case o.Type == ioam.IOAMProofOfTransit:
			w.proof(h, o, summary)
		default:
			w.found.Others[o.Type]++
		}
	}
}

func (w *walker) trace(h header, o ioam.IOAMOption, summary record.Packet) {
	trace, err := o.Trace()
	if err != nil {
		w.decodeFault(h.offset, err)
		return
	}
	r, err := record.NewTrace(w.packet.Time, trace, summary, w.clock)
	r.Interface, r.OnItsWay = w.packet.Interface, true
	w.found.Records = append(w.found.Records, &r)
	if err != nil {
		// Offsets count from the trace header, which follows 4 bytes of option.
		w.decodeFault(h.offset+o.Offset+4, err)
	}
}

func (w *walker) directExport(h header, o ioam.IOAMOption, summary record.Packet) {
	d, err := o.DirectExport()
	if err != nil {
		w.decodeFault(h.offset, err)
		return
	}
	trigger := record.NewTrigger(w.packet.Time, d, summary)
	trigger.Interface = w.packet.Interface
	w.found.Records = append(w.found.Records, trigger)
}

func (w *walker) edgeToEdge(h header, o ioam.IOAMOption, summary record.Packet) {
	e, err := o.EdgeToEdge()
	if err != nil {
		w.decodeFault(h.offset, err)
		return
	}
	edge := record.NewEdgeToEdge(w.packet.Time, e, summary, w.clock)
	edge.Interface = w.packet.Interface
	w.found.Records = append(w.found.Records, edge)
}

func (w *walker) proof(h header, o ioam.IOAMOption, summary record.Packet) {
	p, err := o.ProofOfTransit()
	if errors.Is(err, ioam.ErrPOTType) {
		w.found.Others[o.Type]++
		return
	}
	if err != nil {
		w.decodeFault(h.offset, err)
		return
	}
	proof := record.NewProof(w.packet.Time, p, summary)
	proof.Interface = w.packet.Interface
	w.found.Records = append(w.found.Records, proof)
}

// decodeFault reports an error whose offset counts from start.
func (w *walker) decodeFault(start int, err error) {
	var de *ioam.DecodeError
	if errors.As(err, &de) {
		w.fault(start+de.Offset, fmt.Errorf("%w (%s)", de.Err, de.Section))
		return
	}
	w.fault(start, err)
}
