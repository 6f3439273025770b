// SPDX-License-Identifier: Apache-2.0

// Package ioam is a codec for in-situ OAM in IPv6: the data formats of RFC 9197
// (trace, with its namespaces and node data; proof of transit) and RFC 9326
// (Direct Export) in the Hop-by-Hop and Destination Options headers of RFC 8200, as RFC 9486
// carries them.
//
// It decodes without copying and encodes by appending:
// [DecodeExtensionHeader], [ExtensionHeader.Options], [Option.IOAM],
// [IOAMOption.Trace], [Trace.Nodes] and the accessors of [NodeData] lead from
// the bytes of a packet to what one node wrote, [IOAMOption.DirectExport] to
// what nodes are to export, [IOAMOption.ProofOfTransit] to what they added up. Every bound comes from the buffer, never from a
// length field alone. Errors are [*DecodeError] values that wrap one of the
// Err… sentinels.
//
// All multi-byte fields are in network byte order. Lengths are in bytes
// unless a comment says "4-byte units", as NodeLen and RemainingLen are on the
// wire.
package ioam
