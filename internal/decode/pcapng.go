// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
)

// Blocks of pcapng (draft-ietf-opsawg-pcapng §4). All others are skipped: some of
// them may have any length, and nothing here needs them.
const (
	blockSection        = 0x0a0d0d0a
	blockInterface      = 1
	blockPacket         = 2 // obsolete, still in old files
	blockSimplePacket   = 3
	blockEnhancedPacket = 6
)

const (
	blockHead  = 8  // type and length
	blockFrame = 12 // and the length again, at the end
	byteOrder  = 0x1a2b3c4d
)

// Options of an interface.
const (
	optionEnd        = 0
	optionName       = 2
	optionResolution = 9
	optionOffset     = 14
)

const (
	// maxInterfaces bounds the interfaces of a section that the reader keeps.
	maxInterfaces = 16384
	// maxName is how much is kept of an interface's name.
	maxName = 256
)

// ngInterface is what packets need from an interface.
type ngInterface struct {
	name       string
	link       LinkType
	snapLength uint32
	perSecond  uint64 // units of its times; 0 when they cannot be read
	offset     int64  // seconds
}

// ngReader reads the packets of a pcapng capture. What it keeps is bounded,
// whatever the file claims.
type ngReader struct {
	in         *bufio.Reader
	order      binary.ByteOrder
	interfaces []ngInterface
	scratch    [24]byte
	left       uint32 // bytes left in the block's body
}

// newNgReader reads the header of the first section.
func newNgReader(in *bufio.Reader) (*ngReader, error) {
	r := &ngReader{in: in, order: binary.LittleEndian}
	kind, err := r.block()
	if err == nil && kind != blockSection {
		err = ErrNotCapture
	}
	if err == nil {
		err = r.section()
	}
	return r, err
}

// block begins a block. io.EOF means that there is none.
func (r *ngReader) block() (kind uint32, err error) {
	head := r.scratch[:blockHead]
	if _, err := io.ReadFull(r.in, head); err != nil {
		return 0, err
	}
	if binary.BigEndian.Uint32(head) == blockSection { // the same in both byte orders
		magic, err := r.in.Peek(4)
		if err != nil {
			return 0, within(err)
		}
		switch {
		case binary.LittleEndian.Uint32(magic) == byteOrder:
			r.order = binary.LittleEndian
		case binary.BigEndian.Uint32(magic) == byteOrder:
			r.order = binary.BigEndian
		default:
			return 0, errors.New("the section has no byte order; the file is damaged")
		}
	}
	kind, length := r.order.Uint32(head), r.order.Uint32(head[4:])
	if length < blockFrame {
		return 0, fmt.Errorf("a block of %d bytes is too short; the file is damaged", length)
	}
	r.left = length - blockFrame
	return kind, nil
}

// readBody reads the next bytes of the block's body. They are valid until the next call.
func (r *ngReader) readBody(n uint32) ([]byte, error) {
	b := r.scratch[:n]
	return b, r.fill(b)
}

func (r *ngReader) fill(b []byte) error {
	if uint64(len(b)) > uint64(r.left) {
		return fmt.Errorf("a block is %d bytes too short for its content; the file is damaged", uint64(len(b))-uint64(r.left))
	}
	r.left -= uint32(len(b))
	_, err := io.ReadFull(r.in, b)
	return within(err)
}

// within turns io.EOF into ErrCut: in the middle of a block it is an error.
func within(err error) error {
	if errors.Is(err, io.EOF) {
		return ErrCut
	}
	return err
}

func (r *ngReader) skip(n uint32) error {
	r.left -= n
	return r.discard(int64(n))
}

func (r *ngReader) discard(n int64) error {
	if n > maxSilence {
		return silence(n)
	}
	_, err := r.in.Discard(int(n))
	return within(err)
}

// end skips the rest of the block and its trailing length, which is not checked.
func (r *ngReader) end() error {
	n := int64(r.left) + blockFrame - blockHead
	r.left = 0
	return r.discard(n)
}

// section reads a section's header, which ends the interfaces of the one before.
func (r *ngReader) section() error {
	r.interfaces = r.interfaces[:0]
	b, err := r.readBody(16)
	if err != nil {
		return err
	}
	if major := r.order.Uint16(b[4:]); major != 1 {
		return problem.New(fmt.Sprintf("pcapng version %d is not supported", major), "convert it with editcap")
	}
	return r.end()
}

// description reads the description of an interface.
func (r *ngReader) description() error {
	b, err := r.readBody(8)
	if err != nil {
		return err
	}
	if len(r.interfaces) == maxInterfaces {
		return problem.New(fmt.Sprintf("the section has more than %d interfaces", maxInterfaces), "capture on fewer, or split it with editcap")
	}
	i := ngInterface{link: LinkType(r.order.Uint16(b)), snapLength: r.order.Uint32(b[4:]), perSecond: 1e6}
	for r.left >= 4 {
		if b, err = r.readBody(4); err != nil {
			return err
		}
		code, length := r.order.Uint16(b), uint32(r.order.Uint16(b[2:]))
		if code == optionEnd {
			break
		}
		padded := (length + 3) &^ 3
		if padded > r.left {
			return fmt.Errorf("option %d of an interface is longer than its block; the file is damaged", code)
		}
		before := r.left
		if err := r.option(&i, code, length); err != nil {
			return err
		}
		if err := r.skip(padded - (before - r.left)); err != nil {
			return err
		}
	}
	r.interfaces = append(r.interfaces, i)
	return r.end()
}

// option reads the useful part of an interface's option.
func (r *ngReader) option(i *ngInterface, code uint16, length uint32) error {
	switch {
	case code == optionName:
		name := make([]byte, min(length, maxName))
		err := r.fill(name)
		i.name = string(name)
		return err
	case code == optionResolution && length >= 1:
		b, err := r.readBody(1)
		i.perSecond = unitsPerSecond(b[0])
		return err
	case code == optionOffset && length >= 8:
		b, err := r.readBody(8)
		i.offset = int64(r.order.Uint64(b))
		return err
	}
	return nil
}

// unitsPerSecond reads a resolution: a negative power of 10, or of 2 with the first
// bit, so that 0 is whole seconds; the result is 0 for those that do not fit in 64
// bits.
func unitsPerSecond(resolution byte) uint64 {
	switch exponent := resolution & 0x7f; {
	case resolution > 0x7f && exponent < 64:
		return 1 << exponent
	case resolution > 19:
		return 0
	}
	units := uint64(1)
	for range resolution {
		units *= 10
	}
	return units
}

// time is when a packet was captured.
func (i *ngInterface) time(at uint64) time.Time {
	if i.perSecond == 0 {
		return time.Time{}
	}
	high, low := bits.Mul64(at%i.perSecond, 1e9)
	ns, _ := bits.Div64(high, low, i.perSecond)
	return time.Unix(int64(at/i.perSecond)+i.offset, int64(ns)).UTC()
}

// next reads blocks until one with a packet.
func (r *ngReader) next(mayRead func() error) (Packet, error) {
	for {
		if err := mayRead(); err != nil {
			return Packet{}, err
		}
		kind, err := r.block()
		if err != nil {
			return Packet{}, err
		}
		switch kind {
		case blockSection:
			err = r.section()
		case blockInterface:
			err = r.description()
		case blockEnhancedPacket, blockPacket, blockSimplePacket:
			return r.packet(kind)
		default:
			err = r.end()
		}
		if err != nil {
			return Packet{}, err
		}
	}
}

func (r *ngReader) packet(kind uint32) (p Packet, err error) {
	var from, captured, length uint32
	var at uint64
	if kind == blockSimplePacket {
		b, err := r.readBody(4)
		if err != nil {
			return p, err
		}
		length = r.order.Uint32(b)
		captured = min(length, r.left)
	} else {
		b, err := r.readBody(20)
		if err != nil {
			return p, err
		}
		from = r.order.Uint32(b)
		if kind == blockPacket {
			from = uint32(r.order.Uint16(b))
		}
		at = uint64(r.order.Uint32(b[4:]))<<32 | uint64(r.order.Uint32(b[8:]))
		captured, length = r.order.Uint32(b[12:]), r.order.Uint32(b[16:])
	}
	if uint64(from) >= uint64(len(r.interfaces)) {
		return p, fmt.Errorf("interface %d does not exist among the %d of its section", from, len(r.interfaces))
	}
	i := &r.interfaces[from]
	if kind == blockSimplePacket && i.snapLength != 0 {
		captured = min(captured, i.snapLength)
	}
	if captured > maxCaptured {
		return p, tooLong(captured)
	}
	if captured > r.left {
		return p, fmt.Errorf("a packet of %d bytes is longer than its block; the file is damaged", captured)
	}
	p = Packet{Interface: i.name, Link: i.link, Data: make([]byte, captured), Length: int(length)}
	if kind != blockSimplePacket {
		p.Time = i.time(at)
	}
	if err := r.fill(p.Data); err != nil {
		return Packet{}, err
	}
	return p, r.end()
}
