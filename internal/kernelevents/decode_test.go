// SPDX-License-Identifier: Apache-2.0

package kernelevents

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// recorded is a datagram of a 6.18 kernel: namespace 123, type 0x840000, data of
// two nodes, the last of which is the kernel.
const recorded = "40000000 1e000000 00000000 00000000 01010000 06000100 7b000000 05000200 02000000" +
	"08000300 00000084 14000400 3f000002 ffffffff 40000001 00000000"

// recordedFamily is the family's number in that kernel.
const recordedFamily = 30

// attribute is one netlink attribute, padded.
func attribute(kind uint16, value ...byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

func native16(v uint16) []byte { return binary.NativeEndian.AppendUint16(nil, v) }
func native32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// event is a message's content: the generic header and attributes.
func event(command byte, attributes ...[]byte) []byte {
	b := []byte{command, 1, 0, 0}
	for _, a := range attributes {
		b = append(b, a...)
	}
	return b
}

// message puts a netlink header in front of content.
func message(family uint16, content []byte) []byte {
	b := native32(uint32(16 + len(content)))
	b = append(b, native16(family)...)
	return append(append(b, make([]byte, 10)...), content...)
}

func TestDecode(t *testing.T) {
	namespace, nodeLen := attribute(attributeNamespace, native16(123)...), attribute(attributeNodeLen, 1)
	kind := attribute(attributeType, native32(0x80000007)...)
	data := attribute(attributeData, 0x3f, 0, 0, 2, 0x40, 0, 0, 1)
	empty := attribute(attributeData)
	for _, tt := range []struct {
		name    string
		content []byte
		want    string // namespace, type, reserved bits, data
		err     error
	}{
		{"two nodes", event(1, namespace, nodeLen, kind, data), "123 800000 7 3f00000240000001", nil},
		{"in another order", event(1, data, kind, nodeLen, namespace), "123 800000 7 3f00000240000001", nil},
		{"no node", event(1, namespace, nodeLen, kind, empty), "123 800000 7 ", nil},
		{"with an attribute of a later kernel", event(1, namespace, attribute(9, 1, 2, 3), nodeLen, kind, data), "123 800000 7 3f00000240000001", nil},
		{"a kind of event that is not known", event(2, namespace), "", errOther},
		{"no header", []byte{1, 1, 0}, "", errIncomplete},
		{"no attributes", event(1), "", errIncomplete},
		{"no namespace", event(1, nodeLen, kind, data), "", errIncomplete},
		{"no node length", event(1, namespace, kind, data), "", errIncomplete},
		{"no type", event(1, namespace, nodeLen, data), "", errIncomplete},
		{"no data", event(1, namespace, nodeLen, kind), "", errIncomplete},
		{"a short namespace", event(1, attribute(attributeNamespace, 1), nodeLen, kind, data), "", errIncomplete},
		{"a short type", event(1, namespace, nodeLen, attribute(attributeType, 0x80, 0), data), "", errIncomplete},
		{"more data than an option holds", event(1, namespace, nodeLen, kind, attribute(attributeData, make([]byte, maxData+1)...)), "", errIncomplete},
		{"a cut attribute", event(1, namespace, nodeLen, kind, data)[:38], "", errIncomplete},
		{"a node length that is not the type's", event(1, namespace, attribute(attributeNodeLen, 2), kind, data), "", ioam.ErrNodeLength},
	} {
		before := string(tt.content)
		trace, err := decode(tt.content)
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.err)
			continue
		}
		if string(tt.content) != before {
			t.Errorf("%s: the message was changed", tt.name)
		}
		if tt.err != nil {
			continue
		}
		clear(tt.content) // the trace owns its data
		if got := text(trace); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func text(t ioam.Trace) string {
	return fmt.Sprintf("%d %06x %d %x", t.Namespace, uint32(t.Type), t.Reserved, t.Data)
}

// A datagram is read up to the first contradiction in it.
func TestTake(t *testing.T) {
	good := event(1, attribute(attributeNamespace, native16(123)...), attribute(attributeNodeLen, 1),
		attribute(attributeType, native32(0x80000000)...), attribute(attributeData, 0x3f, 0, 0, 2))
	long := message(7, good)
	binary.NativeEndian.PutUint32(long, uint32(len(long)+1))
	short := message(7, good)
	binary.NativeEndian.PutUint32(short, 15)
	for _, tt := range []struct {
		name                       string
		datagram                   []byte
		heard, received, malformed uint64
	}{
		{"nothing", nil, 0, 0, 0},
		{"one", message(7, good), 1, 1, 0},
		{"two", append(message(7, good), message(7, good)...), 2, 2, 0},
		{"of another family", message(8, good), 0, 0, 0},
		{"of another kind", message(7, event(2)), 0, 0, 0},
		{"not understood, then one", append(message(7, event(1)), message(7, good)...), 1, 2, 1},
		{"longer than the datagram", append(message(7, good), long...), 1, 2, 1},
		{"shorter than its header", short, 0, 1, 1},
		{"a cut header", append(message(7, good), 20, 0, 0, 0), 1, 2, 1},
	} {
		var c Counters
		heard := uint64(0)
		readDatagram(tt.datagram, 7, &c, func(ioam.Trace) { heard++ })
		if heard != tt.heard || c.Received() != tt.received || c.Malformed() != tt.malformed || c.Lost() != 0 {
			t.Errorf("%s: heard %d, received %d, malformed %d, lost %d; want %d, %d, %d, none",
				tt.name, heard, c.Received(), c.Malformed(), c.Lost(), tt.heard, tt.received, tt.malformed)
		}
	}
}

// TestRecorded reads a recorded event of a kernel.
func TestRecorded(t *testing.T) {
	var c Counters
	var got []string
	readDatagram(craft.Hex(t, recorded), recordedFamily, &c, func(trace ioam.Trace) {
		nodes, err := trace.Nodes()
		if err != nil {
			t.Error(err)
		}
		for _, n := range nodes {
			got = append(got, hex.EncodeToString(n.Bytes))
		}
	})
	if want := "4000000100000000 3f000002ffffffff"; strings.Join(got, " ") != want || c.Received() != 1 {
		t.Errorf("%d events, nodes %s; want one, %s", c.Received(), strings.Join(got, " "), want)
	}
}

func FuzzTake(f *testing.F) {
	f.Add(craft.Hex(f, recorded))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		var c Counters
		heard := uint64(0)
		readDatagram(datagram, recordedFamily, &c, func(trace ioam.Trace) {
			heard++
			if len(trace.Data) > maxData || trace.Check() != nil {
				t.Errorf("an impossible trace: %+v", trace)
			}
			_, _ = trace.Nodes() // the reader must detect truncated data
		})
		if heard+c.Malformed() != c.Received() {
			t.Errorf("%d heard and %d malformed of %d", heard, c.Malformed(), c.Received())
		}
	})
}
