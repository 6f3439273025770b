// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
)

// What is embedded is what was compiled; every object can be read.
func TestUnpack(t *testing.T) {
	for name, packed := range map[string][]byte{"ABI": _ABIBytes, "IngressXDP": _IngressXDPBytes, "IngressTC": _IngressTCBytes,
		"EgressTC": _EgressTCBytes, "Tap": _TapBytes, "Queue": _QueueBytes} {
		object, err := unpack(packed)
		if err != nil || !bytes.HasPrefix(object, []byte("\x7fELF")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A damaged object is an error, never a program.
func TestUnpackDamaged(t *testing.T) {
	large := slices.Clone(_TapBytes)
	binary.LittleEndian.PutUint32(large[len(large)-4:], mostUnpacked+1)
	sum := slices.Clone(_TapBytes)
	sum[len(sum)-8] ^= 1
	more := slices.Clone(_TapBytes)
	more[len(more)-4] ^= 1
	for name, packed := range map[string][]byte{"nothing": nil, "no gzip": []byte("\x7fELF and no more"), "cut": _TapBytes[:len(_TapBytes)/2],
		"too large": large, "checksum": sum, "size": more} {
		if _, err := ebpf.LoadCollectionSpecFromReader(unpacked(packed)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func BenchmarkUnpack(b *testing.B) {
	for b.Loop() {
		if _, err := unpack(_IngressXDPBytes); err != nil {
			b.Fatal(err)
		}
	}
}
