// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Lengths of values.
const (
	timestampInformationLen = 4
	classOfServiceLen       = 4
	directMeasurementLen    = 12
	accessReportLen         = 4
	followUpLen             = 16
	microSessionLen         = 4
)

// SyncSource is what synchronizes a clock (RFC 8972 §5.4).
type SyncSource uint8

// Synchronization sources. The registry has no value for one that is not known; 0 is
// reserved, and is what a sender's zeros say.
const (
	SyncUnknown     SyncSource = 0
	SyncNTP         SyncSource = 1
	SyncPTP         SyncSource = 2
	SyncBITS        SyncSource = 3
	SyncSatellite   SyncSource = 4
	SyncFreeRunning SyncSource = 5
)

// String returns the name used in output, such as "ntp" or "unknown", or "source-N".
func (s SyncSource) String() string {
	names := [...]string{"unknown", "ntp", "ptp", "bits", "satellite", "free-running"}
	if int(s) >= len(names) {
		return fmt.Sprintf("source-%d", uint8(s))
	}
	return names[s]
}

// Method is how a timestamp was obtained (RFC 8972 §5.5).
type Method uint8

// Timestamping methods.
const (
	MethodHardware     Method = 1
	MethodSoftware     Method = 2
	MethodControlPlane Method = 3
)

// String returns the name used in output: "hardware", "software", "control-plane" or
// "method-N".
func (m Method) String() string {
	names := [...]string{1: "hardware", "software", "control-plane"}
	if m == 0 || int(m) >= len(names) {
		return fmt.Sprintf("method-%d", uint8(m))
	}
	return names[m]
}

// TimestampInformation says where the reflector's timestamps come from (RFC 8972
// §4.3).
type TimestampInformation struct {
	SourceIn  SyncSource
	MethodIn  Method
	SourceOut SyncSource
	MethodOut Method
}

// DecodeTimestampInformation decodes a value; sub-TLVs are ignored.
func DecodeTimestampInformation(value []byte) (TimestampInformation, error) {
	if len(value) < timestampInformationLen {
		return TimestampInformation{}, fault(len(value), "RFC 8972 §4.3", ErrTLVLength)
	}
	return TimestampInformation{SyncSource(value[0]), Method(value[1]), SyncSource(value[2]), Method(value[3])}, nil
}

// Append appends the value.
func (i TimestampInformation) Append(dst []byte) []byte {
	return append(dst, byte(i.SourceIn), byte(i.MethodIn), byte(i.SourceOut), byte(i.MethodOut))
}

// ClassOfService asks for the DSCP of the reply, and reports what arrived at the
// reflector (RFC 8972 §4.4).
type ClassOfService struct {
	Wanted      uint8 // DSCP1, for the reply
	Received    uint8 // DSCP2, at the reflector
	ECN         uint8 // at the reflector
	ReversePath uint8 // 1: the reflector's policy did not permit Wanted
}

// DecodeClassOfService decodes a value.
func DecodeClassOfService(value []byte) (ClassOfService, error) {
	if len(value) != classOfServiceLen {
		return ClassOfService{}, fault(len(value), "RFC 8972 §4.4", ErrTLVLength)
	}
	word := binary.BigEndian.Uint16(value)
	return ClassOfService{uint8(word >> 10), uint8(word >> 4 & 0x3f), uint8(word >> 2 & 3), uint8(word & 3)}, nil
}

// Append appends the value.
func (c ClassOfService) Append(dst []byte) []byte {
	word := uint16(c.Wanted)<<10 | uint16(c.Received&0x3f)<<4 | uint16(c.ECN&3)<<2 | uint16(c.ReversePath&3)
	return append(binary.BigEndian.AppendUint16(dst, word), 0, 0)
}

// DirectMeasurement counts the packets of the flow that is measured (RFC 8972 §4.5).
// The counters wrap.
type DirectMeasurement struct {
	SenderTransmitted    uint32
	ReflectorReceived    uint32
	ReflectorTransmitted uint32
}

// DecodeDirectMeasurement decodes a value.
func DecodeDirectMeasurement(value []byte) (DirectMeasurement, error) {
	if len(value) != directMeasurementLen {
		return DirectMeasurement{}, fault(len(value), "RFC 8972 §4.5", ErrTLVLength)
	}
	return DirectMeasurement{binary.BigEndian.Uint32(value), binary.BigEndian.Uint32(value[4:]), binary.BigEndian.Uint32(value[8:])}, nil
}

// Append appends the value.
func (d DirectMeasurement) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, d.SenderTransmitted)
	dst = binary.BigEndian.AppendUint32(dst, d.ReflectorReceived)
	return binary.BigEndian.AppendUint32(dst, d.ReflectorTransmitted)
}

// AccessReport reports the state of an access network (RFC 8972 §4.6).
type AccessReport struct {
	AccessID   uint8 // 1: 3GPP, 2: not 3GPP
	ReturnCode uint8 // 1: available, 2: unavailable
}

// DecodeAccessReport decodes a value. The causes of an error are ErrTLVLength and
// ErrAccessID.
func DecodeAccessReport(value []byte) (AccessReport, error) {
	if len(value) != accessReportLen {
		return AccessReport{}, fault(len(value), "RFC 8972 §4.6", ErrTLVLength)
	}
	r := AccessReport{value[0] >> 4, value[1]}
	if r.AccessID != 1 && r.AccessID != 2 {
		return r, fault(0, "RFC 8972 §4.6", ErrAccessID)
	}
	return r, nil
}

// Append appends the value.
func (r AccessReport) Append(dst []byte) []byte {
	return append(dst, r.AccessID<<4, r.ReturnCode, 0, 0)
}

// FollowUpTelemetry says when the reply before was really sent (RFC 8972 §4.7).
type FollowUpTelemetry struct {
	Sequence  uint32    // of the reflector's previous packet
	Timestamp Timestamp // in the format of the packet's error estimate
	Method    Method
}

// DecodeFollowUpTelemetry decodes a value.
func DecodeFollowUpTelemetry(value []byte) (FollowUpTelemetry, error) {
	if len(value) != followUpLen {
		return FollowUpTelemetry{}, fault(len(value), "RFC 8972 §4.7", ErrTLVLength)
	}
	return FollowUpTelemetry{binary.BigEndian.Uint32(value), Timestamp(binary.BigEndian.Uint64(value[4:])), Method(value[12])}, nil
}

// Append appends the value.
func (f FollowUpTelemetry) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, f.Sequence)
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.Timestamp))
	return append(dst, byte(f.Method), 0, 0, 0)
}

// MicroSession identifies the member links of an aggregated link that a session
// measures (RFC 9534 §3.1); 0 is unknown.
type MicroSession struct {
	Sender    uint16
	Reflector uint16
}

// DecodeMicroSession decodes a value.
func DecodeMicroSession(value []byte) (MicroSession, error) {
	if len(value) != microSessionLen {
		return MicroSession{}, fault(len(value), "RFC 9534 §3.1", ErrTLVLength)
	}
	return MicroSession{binary.BigEndian.Uint16(value), binary.BigEndian.Uint16(value[2:])}, nil
}

// Append appends the value.
func (m MicroSession) Append(dst []byte) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(dst, m.Sender), m.Reflector)
}

// DecodeAddress decodes the value of a Destination Node Address TLV (RFC 9503 §3) or
// of a Return Address sub-TLV (RFC 9503 §4.1.2): an IPv4 or an IPv6 address.
func DecodeAddress(value []byte) (netip.Addr, error) {
	a, ok := netip.AddrFromSlice(value)
	if !ok {
		return a, fault(len(value), "RFC 9503 §3", ErrTLVLength)
	}
	return a, nil
}
