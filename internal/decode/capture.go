// SPDX-License-Identifier: Apache-2.0

// Package decode reads IOAM traces and Direct Exports (RFC 9197, RFC 9326, RFC
// 9486) out of packet captures, in pcap and pcapng format.
package decode

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Packet is one packet of a capture.
type Packet struct {
	Number    int       // from 1, as other tools count
	Time      time.Time // zero when the capture has none
	Interface string    // "" when the capture has none
	Link      LinkType
	Data      []byte // what was captured, from the link layer on
	Length    int    // of the whole packet
}

// CaptureError is where and why a capture cannot be read on.
type CaptureError struct {
	Packet int   // number of the packet that could not be read
	Offset int64 // where its record begins, in bytes of the (uncompressed) file
	Err    error
}

func (e *CaptureError) Error() string {
	return fmt.Sprintf("packet %d at offset %d: %v", e.Packet, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *CaptureError) Unwrap() error { return e.Err }

// Causes of a CaptureError.
var (
	ErrNotCapture = errors.New("this is neither a pcap nor a pcapng capture; convert it with editcap")
	ErrEmpty      = errors.New("the capture is empty: what was to write it may have failed")
	ErrCut        = errors.New("the capture ends in the middle of a record")
)

// source is what the two formats have in common.
type source interface {
	ReadPacketData() ([]byte, gopacket.CaptureInfo, error)
}

// Reader reads the packets of a capture.
type Reader struct {
	in     *bufio.Reader
	read   *counter
	source source
	number int
}

// counter counts the bytes that were read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// NewReader begins to read a capture, which may be compressed with gzip.
func NewReader(r io.Reader) (*Reader, error) {
	raw := bufio.NewReader(r)
	if magic, err := raw.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(raw)
		if err != nil {
			return nil, &CaptureError{Packet: 1, Err: fmt.Errorf("gzip: %w", err)}
		}
		r = z
	} else {
		r = raw
	}
	c := &counter{r: r}
	reader := &Reader{in: bufio.NewReaderSize(c, 1<<16), read: c}
	magic, err := reader.in.Peek(4)
	if len(magic) == 0 && errors.Is(err, io.EOF) {
		return nil, &CaptureError{Packet: 1, Err: ErrEmpty}
	}
	if err != nil {
		return nil, &CaptureError{Packet: 1, Err: ErrNotCapture}
	}
	if binary.BigEndian.Uint32(magic) == 0x0a0d0d0a {
		reader.source, err = pcapgo.NewNgReader(reader.in, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	} else if isPcap(magic) {
		reader.source, err = pcapgo.NewReader(reader.in)
	} else {
		err = ErrNotCapture
	}
	if err != nil {
		return nil, &CaptureError{Packet: 1, Err: cause(err)}
	}
	return reader, nil
}

// isPcap knows microseconds and nanoseconds in both byte orders.
func isPcap(magic []byte) bool {
	switch binary.BigEndian.Uint32(magic) {
	case 0xa1b2c3d4, 0xd4c3b2a1, 0xa1b23c4d, 0x4d3cb2a1:
		return true
	}
	return false
}

// Next returns the next packet, io.EOF at the end, or a *CaptureError, behind
// which nothing can be read.
func (r *Reader) Next() (Packet, error) {
	offset := r.position()
	data, info, err := r.source.ReadPacketData()
	if err != nil {
		if r.atEnd(err, offset) {
			return Packet{}, io.EOF
		}
		return Packet{}, &CaptureError{Packet: r.number + 1, Offset: offset, Err: cause(err)}
	}
	r.number++
	p := Packet{Number: r.number, Time: info.Timestamp, Data: data, Length: max(info.Length, len(data))}
	switch s := r.source.(type) {
	case *pcapgo.NgReader:
		if link, ok := info.AncillaryData[0].(layers.LinkType); ok {
			p.Link = LinkType(link)
		}
		if in, err := s.Interface(info.InterfaceIndex); err == nil {
			p.Interface = in.Name
		}
	case *pcapgo.Reader:
		p.Link = LinkType(s.LinkType())
	}
	return p, nil
}

// atEnd says whether the capture ended behind a whole record. The reader of
// pcapng returns io.EOF only there; that of pcap also behind a record's header.
func (r *Reader) atEnd(err error, offset int64) bool {
	if !errors.Is(err, io.EOF) {
		return false
	}
	_, isNg := r.source.(*pcapgo.NgReader)
	return isNg || r.position() == offset
}

// position is how many bytes the source has taken.
func (r *Reader) position() int64 { return r.read.n - int64(r.in.Buffered()) }

// cause names a cut in the capture's own words.
func cause(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}
