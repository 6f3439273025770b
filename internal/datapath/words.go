// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// prefixWords returns a prefix's address and mask with the memory layout of a
// packet.
func prefixWords(p netip.Prefix) (address, mask [2]uint64) {
	if !p.IsValid() {
		return address, mask
	}
	var ones [16]byte
	for i := range p.Bits() {
		ones[i/8] |= 0x80 >> (i % 8)
	}
	return addressWords(p.Masked().Addr()), [2]uint64{
		binary.NativeEndian.Uint64(ones[:8]), binary.NativeEndian.Uint64(ones[8:]),
	}
}

func addressWords(a netip.Addr) [2]uint64 {
	if !a.IsValid() {
		return [2]uint64{}
	}
	b := a.As16()
	return [2]uint64{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:])}
}

// addressOf is the inverse of addressWords.
func addressOf(words [2]uint64) netip.Addr {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:8], words[0])
	binary.NativeEndian.PutUint64(b[8:], words[1])
	return netip.AddrFrom16(b)
}

// be16, be32 and be64 return a number with the memory layout of network order.
func be16(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

func be32(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}

func be64(v uint64) uint64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return binary.NativeEndian.Uint64(b[:])
}

func boolean(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// powerOfTwo is the smallest power of two that is at least n.
func powerOfTwo(n uint) uint32 { return 1 << bits.Len(max(n, 1)-1) }
