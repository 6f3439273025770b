// SPDX-License-Identifier: Apache-2.0

package ioam

// NamespaceID identifies an IOAM namespace (RFC 9197 §4.3).
type NamespaceID uint16

// NodeID is a node's 24-bit identifier (RFC 9197 §4.4.2.1).
type NodeID uint32

// NodeIDWide is a node's 56-bit identifier (RFC 9197 §4.4.2.9).
type NodeIDWide uint64

// InterfaceID is an interface's 16-bit identifier (RFC 9197 §4.4.2.2).
type InterfaceID uint16

// InterfaceIDWide is an interface's 32-bit identifier (RFC 9197 §4.4.2.10).
type InterfaceIDWide uint32

// SchemaID identifies the schema of an opaque state snapshot, 24 bits
// (RFC 9197 §4.4.2.13).
type SchemaID uint32

// NextHeader is a value of the IPv6 Next Header field (RFC 8200 §4).
type NextHeader uint8

// Values that Linux uses for ids that are not configured; on the wire they mean "not
// available".
const (
	NodeIDUnavailable          NodeID          = 1<<24 - 1
	NodeIDWideUnavailable      NodeIDWide      = 1<<56 - 1
	InterfaceIDUnavailable     InterfaceID     = 1<<16 - 1
	InterfaceIDWideUnavailable InterfaceIDWide = 1<<32 - 1
	SchemaIDNone               SchemaID        = 1<<24 - 1
	DataUnavailable            uint32          = 1<<32 - 1
	DataWideUnavailable        uint64          = 1<<64 - 1
)
