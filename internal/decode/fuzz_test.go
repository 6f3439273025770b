// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bufio"
	"bytes"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// FuzzCapture: no file makes the reader panic or hang, and its records can be written.
func FuzzCapture(f *testing.F) {
	packet := udp(0, options(f, 17, trace(1, 2)))
	f.Add(pcap(f, LinkEthernet, frame(LinkEthernet, packet)))
	f.Add(pcapng(f, LinkSLL2, frame(LinkSLL2, packet)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := decodeCapture(t, data)
		for _, record := range r.records {
			_ = record.Text()
		}
		for _, trigger := range r.triggers {
			_ = trigger.Text()
		}
		for _, proof := range r.proofs {
			_ = proof.Text()
		}
	})
}

// FuzzBlocks: the packets read from pcapng are in the file, once and in order, whatever
// lengths it claims, and the reader keeps no more than the file has.
func FuzzBlocks(f *testing.F) {
	packet := udp(0, options(f, 17, trace(1, 2)))
	f.Add(pcapng(f, LinkRaw, packet, packet))
	resolution := ngOption(optionResolution, []byte{9})
	f.Add(
		bytes.Join(
			[][]byte{
				ngSection(),
				ngInterfaceBlock(ngOption(optionName, []byte("eth0")), resolution),
				ngBlock(4, []byte{0, 0, 0, 0}),
				ngPacket(packet, ngOption(1, []byte("why"))),
			},
			nil,
		),
	)
	f.Add(
		bytes.Join(
			[][]byte{ngSection(), ngInterfaceBlock(), ngBlock(blockSimplePacket, append([]byte{72, 0, 0, 0}, packet...)), ngSection()},
			nil,
		),
	)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := newNgReader(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		rest, packets := data, 0
		for {
			p, err := r.next(func() error { return nil })
			if err != nil {
				return
			}
			at := bytes.Index(rest, p.Data)
			if packets++; at < 0 || len(p.Interface) > maxName || len(r.interfaces) > len(data)/20 || packets > len(data)/16 {
				t.Fatalf("packet %d of %d bytes on %q", packets, len(p.Data), p.Interface)
			}
			rest = rest[at+len(p.Data):]
		}
	})
}

// FuzzPacket: no packet makes the walk panic, and every record has a packet.
func FuzzPacket(f *testing.F) {
	inner := udp(0, options(f, 17, trace(1, 2)))
	f.Add(inner)
	f.Add(udp(0, options(f, 17, directExport(0xc0).Option(0))))
	f.Add(udp(0, options(f, 17, ioam.ProofOfTransit{Namespace: 123, PktID: 1}.Option())))
	f.Add(udp(60, options(f, 44, trace(1, 2), trace(3, 4))))
	f.Add(ipv6Packet(0, "2001:db8::1", "2001:db8::2", append(options(f, 41, trace(1, 2)), inner...)))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := Packet{Number: 1, Time: time.Unix(1, 0), Link: LinkRaw, Data: data, Length: len(data)}
		for _, r := range Find(p, record.Clock{}).Records {
			var packet record.Packet
			switch r := r.(type) {
			case *record.Trace:
				packet = r.Packet
			case *record.Trigger:
				packet = r.Packet
			case *record.Proof:
				packet = r.Packet
			}
			if !packet.Source.IsValid() || packet.Length < 0 || r.Text() == "" {
				t.Fatalf("%+v", r)
			}
		}
	})
}
