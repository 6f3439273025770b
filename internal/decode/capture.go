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

	"github.com/waymark-net/waymark/internal/problem"
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

// CaptureError is where and why the reading of a capture stopped.
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
	ErrNotCapture error = problem.New("this is neither a pcap nor a pcapng capture", "convert it with editcap")
	ErrEmpty            = errors.New("the capture is empty: the program that wrote it may have failed")
	ErrCut              = errors.New("the capture ends in the middle of a record")
)

const (
	// maxCaptured is more than a kernel merges into one packet (BIG TCP: 512 KiB). A
	// record that claims more is refused.
	maxCaptured = 4 << 20
	// maxSilence is how many bytes may pass without a packet: a small compressed file
	// can expand to any number of them.
	maxSilence = 256 << 20
)

func tooLong(captured uint32) error {
	return fmt.Errorf(
		"the record has %d bytes, more than the limit of %d; the file is damaged, or shorten its packets with editcap -s %d",
		captured,
		maxCaptured,
		maxCaptured,
	)
}

func silence(n int64) error {
	return fmt.Errorf(
		"%d bytes without a packet, more than the limit of %d; the file is damaged, or write its packets again with editcap",
		n,
		maxSilence,
	)
}

// source reads packets in one of the two formats; an error of mayRead stops it.
type source interface {
	next(mayRead func() error) (Packet, error)
}

// Reader reads the packets of a capture.
type Reader struct {
	in     *bufio.Reader
	read   *counter
	source source
	number int
	data   int64 // where the last packet with data ended
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

// NewReader starts reading a capture, which may be compressed with gzip.
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
		reader.source, err = newNgReader(reader.in)
	} else if order := pcapOrder(magic); order != nil {
		reader.source, err = newPcapReader(reader.in, order)
	} else {
		err = ErrNotCapture
	}
	if err != nil {
		return nil, &CaptureError{Packet: 1, Err: cause(err)}
	}
	return reader, nil
}

// Next returns the next packet, io.EOF at the end, or a *CaptureError, after which
// nothing can be read.
func (r *Reader) Next() (Packet, error) {
	offset := r.position()
	p, err := r.source.next(r.mayRead)
	if errors.Is(err, io.EOF) {
		return Packet{}, io.EOF
	}
	if err != nil {
		return Packet{}, &CaptureError{Packet: r.number + 1, Offset: offset, Err: cause(err)}
	}
	r.number++
	p.Number, p.Length = r.number, max(p.Length, len(p.Data))
	if len(p.Data) > 0 {
		r.data = r.position()
	}
	return p, nil
}

// mayRead is an error when the last packet was too many bytes ago.
func (r *Reader) mayRead() error {
	if n := r.position() - r.data; n > maxSilence {
		return silence(n)
	}
	return nil
}

// position is how many bytes the source has consumed.
func (r *Reader) position() int64 { return r.read.n - int64(r.in.Buffered()) }

// cause turns an unexpected end of the file into ErrCut.
func cause(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}
