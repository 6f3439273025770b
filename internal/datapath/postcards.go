// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"time"
	"unsafe"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Samples are what programs write into rings, each kind with who takes it.
// Several goroutines call them at once.
type Samples struct {
	Record   func(Record)
	Postcard func(Postcard)
	Flow     func(Flow)
}

const (
	kindSize       = 4
	postcardSize   = int(unsafe.Sizeof(abiPostcard{}))
	flowSampleSize = int(unsafe.Sizeof(abiFlowSample{}))
)

// take hands a sample on to who takes its kind; false says that it is none.
func (s Samples) take(sample []byte, taiOffset time.Duration, flows func() *flowTable) bool {
	if len(sample) < kindSize {
		return false
	}
	switch kind := abiSampleKind(*(*uint32)(unsafe.Pointer(&sample[0]))); {
	case kind == abiSampleKindSAMPLE_POSTCARD && len(sample) >= postcardSize:
		s.Postcard(decodePostcard((*abiPostcard)(unsafe.Pointer(&sample[0])), taiOffset))
	case kind == abiSampleKindSAMPLE_FLOW && len(sample) >= flowSampleSize:
		flows().handedOver((*abiFlowSample)(unsafe.Pointer(&sample[0])), s.Flow)
	case kind == abiSampleKindSAMPLE_RECORD:
		record, ok := decodeRecord(sample, taiOffset)
		if !ok {
			return false
		}
		s.Record(record)
	default:
		return false
	}
	return true
}

func decodePostcard(raw *abiPostcard, taiOffset time.Duration) Postcard {
	key := &raw.Key
	return Postcard{
		Time: time.Unix(0, int64(raw.Time)).Add(-taiOffset).UTC(),
		Export: model.Export{
			Role:    model.ExportRole(key.Role),
			Ingress: model.IfIndex(key.Ingress),
			Egress:  model.IfIndex(key.Egress),
			Option: ioam.DirectExport{
				Namespace:      ioam.NamespaceID(key.NamespaceId),
				Flags:          raw.Flags,
				ExtensionFlags: uint8(key.Type),
				Type:           ioam.TraceType(key.Type >> 8),
				FlowID:         key.FlowId,
				Sequence:       raw.Sequence,
			},
			HopLimit:     raw.HopLimit,
			Time:         int64(raw.Time),
			TransitDelay: raw.Delay,
			QueueDepth:   raw.Queue,
			Flow:         decodeFlowKey(key),
			Length:       int(raw.Length),
		},
	}
}
