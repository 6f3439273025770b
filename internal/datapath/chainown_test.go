// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/datapath/queue"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
)

// The programs that measure queues are ours: that they come and go is no change by others, they run before no program
// of ours in the eyes of a look, and what others do meanwhile is seen all the same.
func TestMeasuredQueuesChangeNoChain(t *testing.T) {
	if tcModes(t)[0] == datapath.AttachClsact {
		t.Skip("this kernel has no tcx, in which queues are measured")
	}
	for _, mode := range tcModes(t) {
		neighbourly(t, "wm-dp-own-"+string(mode), mode, func(t *testing.T, _ *lab.Lab, d *datapath.Datapath, c datapath.Config) {
			look := func(what string, changed bool) {
				t.Helper()
				in, out := hooksOf(t, d)
				if in.Changed || out.Changed != changed || len(out.Before) > 0 || !out.Attached || !out.InPlace {
					t.Errorf("%s, %s: %+v\n%+v", mode, what, in, out)
				}
			}
			if err := d.Apply(c); err != nil {
				t.Fatal(err)
			}
			look("at first", false)
			cookie, err := queue.Cookie()
			if err != nil {
				t.Fatal(err)
			}
			for _, looks := range []bool{true, false} {
				m, err := queue.Open(cookie, []model.IfIndex{index(t)})
				if err != nil {
					t.Fatal(err)
				}
				if looks {
					look("while queues are measured", false)
				}
				if err := m.Close(); err != nil {
					t.Fatal(err)
				}
				look("afterwards", false)
			}
			m, err := queue.Open(cookie, []model.IfIndex{index(t)})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if err := attachStranger(t, index(t), false, stranger(t, ebpf.SchedCLS, "passing", tcxPass), link.Head()).Close(); err != nil {
				t.Fatal(err)
			}
			look("after a stranger", true)
		})
	}
}
