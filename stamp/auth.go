// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Authenticator computes and verifies HMAC-SHA-256, truncated to 128 bits (RFC 8762
// §4.4). After the first use it does not allocate. It is not safe for concurrent
// use.
type Authenticator struct {
	mac      hash.Hash
	sum      [sha256.Size]byte
	sequence [4]byte
}

// NewAuthenticator makes an authenticator with a key, which it copies.
func NewAuthenticator(key []byte) *Authenticator {
	return &Authenticator{mac: hmac.New(sha256.New, key)}
}

// digest is the truncated HMAC of two texts, one following the other. The result is valid
// until the next call.
func (a *Authenticator) digest(first, second []byte) []byte {
	a.mac.Reset()
	a.mac.Write(first) // a hash never fails
	a.mac.Write(second)
	return a.mac.Sum(a.sum[:0])[:HMACLen]
}

// Sign writes the HMAC of an authenticated base packet, which b starts with; false
// when b is too short.
func (a *Authenticator) Sign(b []byte) bool {
	if len(b) < Authenticated.BaseLen() {
		return false
	}
	copy(b[hmacOffset:], a.digest(b[:hmacOffset], nil))
	return true
}

// Verify reports whether b starts with an authenticated base packet whose HMAC is
// right. It takes the same time for every wrong HMAC.
func (a *Authenticator) Verify(b []byte) bool {
	return len(b) >= Authenticated.BaseLen() && hmac.Equal(b[hmacOffset:][:HMACLen], a.digest(b[:hmacOffset], nil))
}

// TLVIntegrity is what an HMAC TLV says about the TLVs before it.
type TLVIntegrity uint8

const (
	// Unprotected: no HMAC TLV. In the authenticated mode this is a failure, unless
	// the only TLV is Extra Padding (RFC 8972 §4.8); see [Intact].
	Unprotected TLVIntegrity = iota
	// Verified: the HMAC is right, and only Extra Padding follows it.
	Verified
	// Failed: the HMAC is wrong, or the HMAC TLV is not at its place.
	Failed
)

// tlvDigest is the HMAC for an HMAC TLV: over the sequence number of the base packet
// and all TLVs before (RFC 8972 §4.8).
func (a *Authenticator) tlvDigest(sequence uint32, before []byte) []byte {
	binary.BigEndian.PutUint32(a.sequence[:], sequence)
	return a.digest(a.sequence[:], before)
}

// VerifyTLVs verifies the HMAC TLV among the TLVs of a packet; sequence is the
// Sequence Number of its base packet.
func (a *Authenticator) VerifyTLVs(sequence uint32, tlvs []byte) TLVIntegrity {
	result := Unprotected
	for t, err := range TLVs(tlvs) {
		switch {
		case err != nil:
			// An HMAC cannot follow. One before covers less than everything.
			if result == Verified {
				return Failed
			}
			return result
		case result == Verified && t.Type() != TypeExtraPadding:
			return Failed // "MUST follow all TLVs […] except for the Extra Padding TLV"
		case t.Type() == TypeHMAC:
			if len(t.Value()) != HMACLen || !hmac.Equal(t.Value(), a.tlvDigest(sequence, tlvs[:t.Offset])) {
				return Failed
			}
			result = Verified
		}
	}
	return result
}

// SignTLVs writes the HMAC into the first HMAC TLV of a packet; false when there is
// none of the right length.
func (a *Authenticator) SignTLVs(sequence uint32, tlvs []byte) bool {
	for t, err := range TLVs(tlvs) {
		if err == nil && t.Type() == TypeHMAC && len(t.Value()) == HMACLen {
			copy(t.Value(), a.tlvDigest(sequence, tlvs[:t.Offset]))
			return true
		}
	}
	return false
}

// Intact reports whether the TLVs of a packet may be used: in the authenticated mode
// they need an HMAC TLV, "with the sole exception of when there is only one TLV
// present and it is the Extended Padding TLV" (RFC 8972 §4.8).
func Intact(i TLVIntegrity, m Mode, tlvs []byte) bool {
	if i != Unprotected || m == Unauthenticated {
		return i != Failed
	}
	count := 0
	for t, err := range TLVs(tlvs) {
		if count++; err != nil || count > 1 || t.Type() != TypeExtraPadding {
			return false
		}
	}
	return true
}
