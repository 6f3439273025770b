// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/model"
)

// TestFlowOfFalseTCPHeader gives an offloaded packet a TCP header that is longer
// than the packet, as a guest may: it is one packet, not 65,516.
func TestFlowOfFalseTCPHeader(t *testing.T) {
	onOneCPU(t)
	cfg := rightConfig()
	cfg.Namespaces[0].Export = model.ExportAggregate
	cfg.FlowEntries = 4
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	frame := exportedTCP(t, 15, 1, 20)
	_, err := p.tcOut.Run(&ebpf.RunOptions{
		Data: frame, DataOut: make([]byte, len(frame)+1024),
		Context: &skb{IngressIfindex: 2, GSOSize: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	flows := p.readSamples(t).flows
	if len(flows) != 1 || flows[0].Packets != 1 || flows[0].Bytes != 40+40 {
		t.Errorf("%+v, want one packet of 80 bytes", flows)
	}
}
