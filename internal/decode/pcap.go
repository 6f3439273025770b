// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
)

// Sizes of the older format (draft-ietf-opsawg-pcap §4 and §5).
const (
	pcapFileHead   = 24 // of the file
	pcapRecordHead = 16 // the head of a packet's record
	// pcapAnyCaptured is how long a packet may be even if the file's head has a lower
	// limit: some writers understate it.
	pcapAnyCaptured = 64 << 10
)

// Magic numbers of pcap, read in the file's byte order.
const (
	pcapMicroseconds = 0xa1b2c3d4
	pcapNanoseconds  = 0xa1b23c4d
)

// pcapOrder is the byte order of a file that begins like this, nil when it is
// no pcap.
func pcapOrder(magic []byte) binary.ByteOrder {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if m := order.Uint32(magic); m == pcapMicroseconds || m == pcapNanoseconds {
			return order
		}
	}
	return nil
}

// pcapReader reads the older format.
type pcapReader struct {
	in         *bufio.Reader
	order      binary.ByteOrder
	unit       time.Duration // of the fraction of a second in a time
	snapLength uint32
	link       LinkType
}

func newPcapReader(in *bufio.Reader, order binary.ByteOrder) (*pcapReader, error) {
	head := make([]byte, pcapFileHead)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, err
	}
	if major, minor := order.Uint16(head[4:]), order.Uint16(head[6:]); major != 2 || minor != 4 {
		return nil, problem.New(fmt.Sprintf("pcap version %d.%d is not supported", major, minor), "convert it with editcap")
	}
	r := &pcapReader{
		in:         in,
		order:      order,
		unit:       time.Microsecond,
		snapLength: order.Uint32(head[16:]),
		link:       LinkType(order.Uint32(head[20:])),
	}
	if order.Uint32(head) == pcapNanoseconds {
		r.unit = time.Nanosecond
	}
	return r, nil
}

// next checks the record's length before it allocates memory. io.EOF means that there
// is no record.
func (r *pcapReader) next(mayRead func() error) (Packet, error) {
	if err := mayRead(); err != nil {
		return Packet{}, err
	}
	var head [pcapRecordHead]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return Packet{}, err
	}
	captured, length := r.order.Uint32(head[8:]), r.order.Uint32(head[12:])
	switch {
	case captured > max(r.snapLength, pcapAnyCaptured):
		return Packet{}, fmt.Errorf("the record has %d bytes, more than the file's limit of %d; the file is damaged", captured, r.snapLength)
	case captured > maxCaptured:
		return Packet{}, tooLong(captured)
	case captured > length:
		return Packet{}, fmt.Errorf("the record has %d bytes of a packet of %d; the file is damaged", captured, length)
	}
	p := Packet{
		Time: time.Unix(int64(r.order.Uint32(head[:])), int64(r.order.Uint32(head[4:]))*int64(r.unit)).UTC(),
		Link: r.link, Data: make([]byte, captured), Length: int(length),
	}
	_, err := io.ReadFull(r.in, p.Data)
	if errors.Is(err, io.EOF) {
		err = ErrCut // after the record's header
	}
	return p, err
}
