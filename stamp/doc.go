// SPDX-License-Identifier: Apache-2.0

// Package stamp is a codec for the Simple Two-Way Active Measurement Protocol:
// the test packets of RFC 8762, unauthenticated and authenticated, with the
// extensions of RFC 8972, RFC 9503 and RFC 9534. It opens no socket.
//
// [SenderPacket] and [ReflectorPacket] are the base packets; [DecodeSender],
// [DecodeReflector] and their Put methods neither allocate nor keep the buffer.
// What follows the base packet are TLVs: [TLVs] yields them without copying, and
// a [TLV] can be changed in place, because a reflector answers with as many octets
// as it got. Types that this package does not know, private ones among them, are
// yielded like all others. [CheckValue] says whether a value has the form that its
// type demands, which decides on the M flag (RFC 8972 §4).
//
// An [Authenticator] computes and verifies the HMACs of base packets (RFC 8762
// §4.4) and of TLVs (RFC 8972 §4.8).
//
// Every bound comes from the buffer, never from a length field alone. Errors are
// [*DecodeError] values that wrap one of the Err… sentinels. All multi-byte fields
// are in network byte order, lengths in octets.
package stamp
