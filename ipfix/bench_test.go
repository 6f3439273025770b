// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"errors"
	"net/netip"
	"testing"
)

// postcard is a record of some 100 octets, as nodes of a domain export them.
var postcard = []string{
	"sourceIPv6Address", "destinationIPv6Address", "sourceTransportPort", "destinationTransportPort",
	"protocolIdentifier", "flowLabelIPv6[3]", "ingressInterface[2]", "egressInterface[2]",
	"packetDeltaCount", "octetDeltaCount", "flowStartNanoseconds", "flowEndNanoseconds",
	"ioamNamespaceId", "ioamNodeId", "ioamHopLimit", "ioamTraceType", "ioamDexFlowId", "ioamDexSequenceNumber",
	"ioamTransitDelayNanoseconds", "flowEndReason",
}

func writePostcard(w *RecordWriter, source, destination netip.Addr, i uint64) {
	w.Addr(source)
	w.Addr(destination)
	w.Uint(4242)
	w.Uint(9)
	w.Uint(17)
	w.Uint(i & 0xfffff)
	w.Uint(2)
	w.Uint(3)
	w.Uint(i)
	w.Uint(i * 100)
	w.UnixNano(1795238460000000000 + i)
	w.UnixNano(1795238460000000000 + 2*i)
	w.Uint(123)
	w.Uint(2)
	w.Uint(63)
	w.Uint(0xf80000)
	w.Uint(i & 0xffffffff)
	w.Uint(i & 0xffffffff)
	w.Uint(18250)
	w.Uint(2)
}

func BenchmarkRecord(b *testing.B) {
	tmpl := template(b, 256, postcard...)
	source, destination := netip.MustParseAddr("2001:db8:1::2"), netip.MustParseAddr("2001:db8:2::2")
	buf := make([]byte, 0, 256)
	b.SetBytes(int64(tmpl.MinRecordLen()))
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		w := tmpl.Record(buf[:0])
		writePostcard(&w, source, destination, i)
		var err error
		if buf, err = w.End(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncode encodes records and packs them into messages of 1452 octets.
func BenchmarkEncode(b *testing.B) {
	tmpl := template(b, 256, postcard...)
	e := encoder(b, UDP, 1452, tmpl)
	source, destination := netip.MustParseAddr("2001:db8:1::2"), netip.MustParseAddr("2001:db8:2::2")
	record, buf := make([]byte, 0, 256), make([]byte, 0, 1500)
	e.Start(buf)
	b.SetBytes(int64(tmpl.MinRecordLen()))
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		w := tmpl.Record(record[:0])
		writePostcard(&w, source, destination, i)
		var err error
		if record, err = w.End(); err != nil {
			b.Fatal(err)
		}
		if err = e.Add(tmpl, record); errors.Is(err, ErrMessageFull) {
			e.Finish(exportTime)
			e.Start(buf)
			err = e.Add(tmpl, record)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecode reads all values of a message of 13 records.
func BenchmarkDecode(b *testing.B) {
	tmpl := template(b, 256, postcard...)
	e := encoder(b, UDP, 1452, tmpl)
	s := session(b, UDP, Limits{})
	r := record(b, tmpl, func(w *RecordWriter) {
		writePostcard(w, netip.IPv6Loopback(), netip.IPv6Loopback(), 1)
	})
	decode(b, s, message(b, e, tmpl))
	var octets []byte
	records, sum := 0, uint64(0)
	for e.Start(nil); e.Add(tmpl, r) == nil; records++ {
	}
	octets = e.Finish(exportTime)
	b.ReportAllocs()
	for b.Loop() {
		for _, set := range decode(b, s, octets).Sets {
			for r := range set.Records() {
				for v := range r.Values() {
					n, _ := v.Uint()
					sum += n
				}
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/record")
	if sum == 0 {
		b.Fatal("nothing was read")
	}
}
