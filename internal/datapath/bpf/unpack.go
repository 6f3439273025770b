// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// mostUnpacked bounds an object; the largest has less than 1 MB.
const mostUnpacked = 8 << 20

// unpacked reads an object that scripts/compress packed. An error comes with the first read.
func unpacked(packed []byte) io.ReaderAt {
	object, err := unpack(packed)
	if err != nil {
		return damaged{err}
	}
	return bytes.NewReader(object)
}

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	size := binary.LittleEndian.Uint32(packed[len(packed)-4:]) // RFC 1952 §2.3.1
	if size > mostUnpacked {
		return nil, fmt.Errorf("unpack: %d bytes are more than %d", size, mostUnpacked)
	}
	object := make([]byte, size)
	if _, err := io.ReadFull(r, object); err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) { // the end has the checksum
		return nil, fmt.Errorf("unpack: the object is damaged at its end: %v", err)
	}
	return object, nil
}

// damaged is an object that cannot be read.
type damaged struct{ err error }

func (d damaged) ReadAt([]byte, int64) (int, error) { return 0, d.err }
