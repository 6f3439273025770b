// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/binary"
	"io"
)

// The head of a pcap file (draft-ietf-opsawg-pcap §4).
const (
	pcapNanoseconds  = 0xa1b23c4d // magic number for times in nanoseconds
	pcapMajor        = 2
	pcapMinor        = 4
	linkTypeEthernet = 1
)

// writePcapHead begins a pcap file of Ethernet frames.
func writePcapHead(w io.Writer) error {
	head := binary.LittleEndian.AppendUint32(nil, pcapNanoseconds)
	head = binary.LittleEndian.AppendUint16(head, pcapMajor)
	head = binary.LittleEndian.AppendUint16(head, pcapMinor)
	head = append(head, make([]byte, 8)...) // reserved
	head = binary.LittleEndian.AppendUint32(head, captureSnapLength)
	_, err := w.Write(binary.LittleEndian.AppendUint32(head, linkTypeEthernet))
	return err
}

// writePcapRecord adds a packet to the file (§5).
func writePcapRecord(w io.Writer, p Packet) error {
	head := binary.LittleEndian.AppendUint32(make([]byte, 0, 16), uint32(p.Time.Unix()))
	head = binary.LittleEndian.AppendUint32(head, uint32(p.Time.Nanosecond()))
	head = binary.LittleEndian.AppendUint32(head, uint32(len(p.Data)))
	head = binary.LittleEndian.AppendUint32(head, uint32(p.Length))
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err := w.Write(p.Data)
	return err
}
