// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

// ReadMessage reads one message from a stream, such as a TCP or TLS connection (RFC
// 7011 §10.4.3), into buf, which grows as needed up to 65535 octets; pass the result
// again to the next call. io.EOF means that the stream ended between two messages,
// io.ErrUnexpectedEOF that it ended within one. A [*Problem] means that the next octets
// are not a message; the stream is then unusable. The caller sets deadlines.
func ReadMessage(r io.Reader, buf []byte) ([]byte, error) {
	buf = slices.Grow(buf[:0], headerLen)[:headerLen]
	if _, err := io.ReadFull(r, buf); err != nil {
		return buf[:0], err
	}
	length := int(binary.BigEndian.Uint16(buf[2:]))
	switch {
	case binary.BigEndian.Uint16(buf) != Version:
		return buf[:0], &Problem{Cause: CauseVersion, Count: 1}
	case length < headerLen:
		return buf[:0], &Problem{Cause: CauseMessageLength, Offset: 2, Count: 1}
	}
	buf = slices.Grow(buf, length-headerLen)[:length]
	if _, err := io.ReadFull(r, buf[headerLen:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return buf[:0], err
	}
	return buf, nil
}
