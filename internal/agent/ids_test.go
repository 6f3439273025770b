// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
)

// Ids that the file leaves to the kernel follow the kernel's settings, with a line in
// the log; those in the file do not change.
func TestIDsFollowTheKernel(t *testing.T) {
	const file = "node: {id-wide: 22}\nmetrics: {listen: none}\ninterfaces: [{name: eth0, role: [ingress]}, {name: eth1, id: 7, id-wide: 8}]\n"
	h := newHarness(t, file)
	h.Start()
	for _, tt := range []struct {
		setting string
		value   uint64
		is      func(model.NodeConfig) uint64
		line    string
	}{
		{"id", 5, func(c model.NodeConfig) uint64 { return uint64(c.ID) }, "setting=net.ipv6.ioam6_id was=16777215 is=5"},
		{"eth0.id", 6, func(c model.NodeConfig) uint64 { return uint64(c.Interfaces[0].ID) }, "setting=net.ipv6.conf.eth0.ioam6_id was=65535 is=6"},
		{"eth0.wide", 9, func(c model.NodeConfig) uint64 { return uint64(c.Interfaces[0].IDWide) }, "setting=net.ipv6.conf.eth0.ioam6_id_wide was=4294967295 is=9"},
	} {
		h.System.SetID(tt.setting, tt.value)
		agenttest.Eventually(t, tt.setting+" follows", func() bool { return tt.is(h.Datapath.Running().Node) == tt.value })
		agenttest.Eventually(t, tt.line, func() bool { return strings.Count(h.Log.String(), tt.line) == 1 })
	}
	before := h.Datapath.Applications()
	for _, setting := range []string{"wide", "eth1.id", "eth1.wide"} {
		h.System.SetID(setting, 99)
	}
	time.Sleep(2*service.PollPeriod + 2*settleTime)
	if n := h.Datapath.Running().Node; h.Datapath.Applications() != before || n.IDWide != 22 || n.Interfaces[1].ID != 7 ||
		n.Interfaces[1].IDWide != 8 {
		t.Errorf("settings for ids of the file changed %+v", n)
	}
}

// An id that another interface already has is logged once, and used as soon as
// possible.
func TestUnusableIDIsLoggedOnce(t *testing.T) {
	h := newHarness(t, "node: {id: 2}\nmetrics: {listen: none}\ninterfaces: [{name: eth0, id: 7}, {name: eth1}]\n")
	h.Start()
	h.System.SetID("eth1.id", 7)
	const line = "7 is also the id of interfaces[0]"
	agenttest.Eventually(t, line, func() bool { return strings.Contains(h.Log.String(), line) })
	time.Sleep(3 * retryTime)
	if n := strings.Count(h.Log.String(), line); n != 1 {
		t.Errorf("it is in the log %d times", n)
	}
	h.System.SetID("eth1.id", 8)
	agenttest.Eventually(t, "the id is taken", func() bool { return h.Datapath.Running().Node.Interfaces[1].ID == 8 })
}

// With many interfaces, each look reads some of them, and finally reaches the last one.
func TestLooksForIDsAreBounded(t *testing.T) {
	const ports = 64
	var file strings.Builder
	file.WriteString("node: {}\nmetrics: {listen: none}\ninterfaces:\n")
	h := newHarness(t, "")
	h.System.SetLinks(func(l map[string]config.Link) {
		for i := range ports {
			l[fmt.Sprint("port", i)] = config.Link{Index: model.IfIndex(100 + i), MTU: 1500}
			fmt.Fprintf(&file, "  - {name: port%d}\n", i)
		}
	})
	h.Write(file.String())
	h.Start()
	time.Sleep(service.PollPeriod / 2)
	read := func() int {
		h.System.Mu.Lock()
		defer h.System.Mu.Unlock()
		return h.System.IDsRead
	}
	before := read()
	const looks = 3
	time.Sleep(looks * service.PollPeriod)
	if got := read() - before; got < 2+2*idsPerLook || got > (looks+1)*(2+2*idsPerLook) {
		t.Errorf("%d settings were read in %d looks, of %d at most each", got, looks, 2+2*idsPerLook)
	}
	h.System.SetID(fmt.Sprintf("port%d.id", ports-1), 77)
	agenttest.Eventually(t, "the last interface's turn", func() bool {
		return h.Datapath.Running().Node.Interfaces[ports-1].ID == 77
	})
}
