// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/reference"
)

// TestCongestionOfTunnels removes a tunnel for each combination of inner and
// outer mark: RFC 6040 §4.2, except that CE around Not-ECT is not dropped.
func TestCongestionOfTunnels(t *testing.T) {
	marks := []string{"Not-ECT", "ECT(1)", "ECT(0)", "CE"}
	const notECT, ect1, ect0, ce = 0, 1, 2, 3
	want := [4][4]byte{ // by the inner mark, then by the outer one
		notECT: {notECT, notECT, notECT, notECT},
		ect1:   {ect1, ect1, ect1, ce},
		ect0:   {ect0, ect1, ect0, ce},
		ce:     {ce, ce, ce, ce},
	}
	cfg := rightConfig()
	decapsulating(&cfg)
	cfg.Decapsulations[0].Bare = true
	p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP, hookIngressTC)
	node, err := reference.NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	const class, innerAt = atIPv6 + 1, atUDP // the mark is in bits 4 and 5 of an IPv6 header's second byte
	bare := func(f []byte) []byte {          // a tunnel whose packet has no header left
		f = append(f[:atHBH:atHBH], f[atUDP:]...)
		return set(atLength, 0, 48, 41)(f)
	}
	for inner := range byte(4) {
		for outer := range byte(4) {
			frame := tunnelled(rightPacket())
			frame[class] |= outer << 4
			frame[innerAt+1] |= inner << 4
			for header, f := range map[string][]byte{"trace": frame, "no header": bare(frame)} {
				name := fmt.Sprintf("%s in %s, %s", marks[inner], marks[outer], header)
				for _, program := range []*ebpf.Program{p.xdp, p.tcIn} {
					verdict, out := run(t, program, f, 0)
					if dropped(program, verdict) || len(out) != 14+48 || out[class]>>4&3 != want[inner][outer] {
						t.Errorf("%s: %v: verdict %d, %x; want %s", name, program.Type(), int32(verdict), out, marks[want[inner][outer]])
					}
				}
				result := node.Ingress(reference.Frame{Data: f, Interface: 1, Time: fixedTime})
				if result.Verdict != reference.Pass || len(result.Data) != 14+48 || result.Data[class]>>4&3 != want[inner][outer] {
					t.Errorf("%s: the reference node: %v, %x; want %s", name, result.Verdict, result.Data, marks[want[inner][outer]])
				}
			}
		}
	}
}
