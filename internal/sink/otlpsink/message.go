// SPDX-License-Identifier: Apache-2.0

package otlpsink

import (
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is a message of protobuf as it is on the wire. The numbers of fields are those of
// opentelemetry-proto 1.11; the tests read all of it with the generated types.
type message []byte

func (m *message) text(number protowire.Number, s string) {
	if s != "" {
		*m = protowire.AppendString(protowire.AppendTag(*m, number, protowire.BytesType), s)
	}
}

func (m *message) octets(number protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, number, protowire.BytesType), b)
}

func (m *message) inner(number protowire.Number, in message) { m.octets(number, in) }

func (m *message) uint(number protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, number, protowire.VarintType), v)
}

func (m *message) sint(number protowire.Number, v int64) { m.uint(number, protowire.EncodeZigZag(v)) }

func (m *message) fixed(number protowire.Number, v uint64) {
	*m = protowire.AppendFixed64(protowire.AppendTag(*m, number, protowire.Fixed64Type), v)
}

func (m *message) time(number protowire.Number, at time.Time) {
	m.fixed(number, uint64(max(at.UnixNano(), 0)))
}

func (m *message) double(number protowire.Number, v float64) { m.fixed(number, math.Float64bits(v)) }

// attribute is a KeyValue of common.proto.
type attribute struct {
	key   string
	value any // string, bool, int64 or float64
}

func (m *message) attributes(number protowire.Number, list []attribute) {
	for _, a := range list {
		var pair, value message
		pair.text(1, a.key)
		value.anyValue(a.value)
		pair.inner(2, value)
		m.inner(number, pair)
	}
}

// anyValue is an AnyValue.
func (m *message) anyValue(v any) {
	switch v := v.(type) {
	case string:
		m.octets(1, []byte(v))
	case bool:
		m.uint(2, protowire.EncodeBool(v))
	case int64:
		m.uint(3, uint64(v))
	case float64:
		m.double(4, v)
	}
}

// packed are numbers of eight octets each.
func (m *message) packed(number protowire.Number, list []uint64) {
	var b []byte
	for _, v := range list {
		b = protowire.AppendFixed64(b, v)
	}
	m.octets(number, b)
}

// packedVarints are numbers of variable length.
func (m *message) packedVarints(number protowire.Number, list []uint64) {
	var b []byte
	for _, v := range list {
		b = protowire.AppendVarint(b, v)
	}
	m.octets(number, b)
}
