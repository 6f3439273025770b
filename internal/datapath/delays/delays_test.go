// SPDX-License-Identifier: Apache-2.0

package delays

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/test/testnet"
)

// A change of the configuration may close the table while a reader without its lock still reads.
func TestReadOfAClosedTable(t *testing.T) {
	testnet.NeedRoot(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		// BPF_F_MMAPABLE
		Type: ebpf.Array, KeySize: 4, ValueSize: uint32(binary.Size(bpf.ABIDelaySeries{})), MaxEntries: uint32(bpf.ABIDelayBoundDELAY_ROOM),
		Flags: 1 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	series := bpf.ABIDelaySeries{Sum: 20, Zero: 1}
	series.Buckets[64] = 2
	var raw bytes.Buffer
	if err := binary.Write(&raw, binary.NativeEndian, &series); err != nil {
		t.Fatal(err)
	}
	if err := m.Put(uint32(Path), raw.Bytes()); err != nil {
		t.Fatal(err)
	}
	memory, err := Map(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	list, err := memory.Read()
	if err != nil || len(list) != 1 || list[0].Key != (Key{Kind: Path, Other: true}) || list[0].Sum != 20 || list[0].Count() != 3 {
		t.Errorf("%+v, %v", list, err)
	}
}
