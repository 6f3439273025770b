// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// PrefixWords returns a prefix's address and mask with the memory layout of a
// packet.
func PrefixWords(p netip.Prefix) (address, mask [2]uint64) {
	if !p.IsValid() {
		return address, mask
	}
	var ones [16]byte
	for i := range p.Bits() {
		ones[i/8] |= 0x80 >> (i % 8)
	}
	return AddressWords(p.Masked().Addr()), [2]uint64{
		binary.NativeEndian.Uint64(ones[:8]), binary.NativeEndian.Uint64(ones[8:]),
	}
}

// AddressWords is an address with the memory layout of a packet; zero without one.
func AddressWords(a netip.Addr) [2]uint64 {
	if !a.IsValid() {
		return [2]uint64{}
	}
	b := a.As16()
	return [2]uint64{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:])}
}

// AddressOf is the inverse of addressWords.
func AddressOf(words [2]uint64) netip.Addr {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:8], words[0])
	binary.NativeEndian.PutUint64(b[8:], words[1])
	return netip.AddrFrom16(b)
}

// BigEndian16 returns a number with the memory layout of network order.
func BigEndian16(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

// BigEndian32 returns a number with the memory layout of network order.
func BigEndian32(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}

// BigEndian64 returns a number with the memory layout of network order.
func BigEndian64(v uint64) uint64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return binary.NativeEndian.Uint64(b[:])
}

// Boolean is 1 for true.
func Boolean(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// PowerOfTwo is the smallest power of two that is at least n.
func PowerOfTwo(n uint) uint32 { return 1 << bits.Len(max(n, 1)-1) }
