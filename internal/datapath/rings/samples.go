// SPDX-License-Identifier: Apache-2.0

package rings

import (
	"time"
	"unsafe"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Samples are the functions that take what programs write into rings, one for
// each kind. Several goroutines call them at once.
type Samples struct {
	Record func(Record)
	// Postcards takes one or more of one CPU, in order. They are valid until it
	// returns.
	Postcards func([]Postcard)
	Flow      func(flows.Flow)
	// Loopback takes the header of a packet of which a copy is to be returned to its
	// source (RFC 9322 §4.2).
	Loopback func(Record)
}

const (
	kindSize       = 4
	postcardSize   = int(unsafe.Sizeof(bpf.ABIPostcard{}))
	flowSampleSize = int(unsafe.Sizeof(bpf.ABIFlowSample{}))
)

// Dispatch passes a sample to the function for its kind; false means that the sample
// is invalid.
func (s Samples) Dispatch(sample []byte, taiOffset time.Duration, table func() *flows.Table) bool {
	if len(sample) < kindSize {
		return false
	}
	switch kind := bpf.ABISampleKind(*(*uint32)(unsafe.Pointer(&sample[0]))); {
	case kind == bpf.ABISampleKindSAMPLE_FLOW && len(sample) >= flowSampleSize:
		table().HandedOver((*bpf.ABIFlowSample)(unsafe.Pointer(&sample[0])), s.Flow)
	case kind == bpf.ABISampleKindSAMPLE_RECORD || kind == bpf.ABISampleKindSAMPLE_LOOPBACK:
		record, ok := decodeRecord(sample, taiOffset)
		if !ok {
			return false
		}
		if kind == bpf.ABISampleKindSAMPLE_RECORD {
			s.Record(record)
		} else {
			s.Loopback(record)
		}
	default:
		return false
	}
	return true
}

// decodePostcard fills in every field; a whole Postcard would be copied.
func decodePostcard(c *Postcard, raw *bpf.ABIPostcard, taiOffset time.Duration) {
	key := &raw.Key
	c.Time = time.Unix(0, int64(raw.Time)-int64(taiOffset)).UTC()
	c.Role, c.Ingress, c.Egress = model.NodeRole(key.Role), model.IfIndex(key.Ingress), model.IfIndex(key.Egress)
	c.Option.Namespace, c.Option.Flags = ioam.NamespaceID(key.NamespaceId), raw.Flags
	c.Option.Type, c.Option.ExtensionFlags = ioam.TraceType(key.Type>>8), uint8(key.Type)
	c.Option.FlowID, c.Option.Sequence = key.FlowId, raw.Sequence
	c.HopLimit, c.Postcard.Time, c.TransitDelay, c.QueueDepth = raw.HopLimit, int64(raw.Time), raw.Delay, raw.Queue
	c.BufferOccupancy = raw.Buffer
	c.Flow, c.Length = flows.DecodeKey(key), int(raw.Length)
}
