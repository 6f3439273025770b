// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pintest"
)

// TestAutoFallsBack serves loopback, which has no native XDP, with the best mode
// of the kernel; other modes are refused with a cure.
func TestAutoFallsBack(t *testing.T) {
	l := raise(t, "wm-dp-auto")
	path := pintest.Directory(t)
	best := tcModes(t)[0]
	err := l.Node("near").Do(func() error {
		d, err := datapath.Open(datapath.Options{PinPath: path})
		if err != nil {
			return err
		}
		defer d.Remove()
		if best != datapath.AttachTCX {
			err := d.Apply(configuration(1, datapath.AttachTCX))
			if err == nil || !strings.Contains(err.Error(), "set attach: clsact") {
				return fmt.Errorf("tcx on a kernel without it: %v, want the cure", err)
			}
		}
		removing := configuration(1, datapath.AttachAuto)
		removing.Node.Namespaces[0].Remove = true
		if err := d.Apply(removing); err != nil {
			return err
		}
		s := d.Interfaces()[0]
		if s.Ingress != best || s.Egress != best || s.NativeXDPRefused == "" {
			return fmt.Errorf("served %+v, want %s both ways and why not XDP", s, best)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAutoChooses takes XDP where headers are removed or nothing is filled, so before
// receive offload, and tc where the stack gets what was filled. A hook that is in place
// stays in its mode.
func TestAutoChooses(t *testing.T) {
	l := raise(t, "wm-dp-choose")
	path := pintest.Directory(t)
	late := tcModes(t)[0]
	err := l.Node("near").Do(func() error {
		for _, tt := range []struct {
			name   string
			change func(*datapath.Config)
			want   datapath.AttachMode
		}{
			{"fills", func(*datapath.Config) {}, late},
			{"removes", func(c *datapath.Config) { c.Node.Namespaces[0].Remove = true }, datapath.AttachXDP},
			{"ends tunnels", func(c *datapath.Config) {
				c.Node.Decapsulations = []model.Decapsulation{{TunnelDestination: netip.MustParseAddr("2001:db8::1")}}
			}, datapath.AttachXDP},
			{"forwards fast", func(c *datapath.Config) { c.Fast = map[model.IfIndex]bool{c.Node.Interfaces[0].Index: true} }, datapath.AttachXDP},
			{"no namespace", func(c *datapath.Config) { c.Node.Namespaces = nil }, datapath.AttachXDP},
			{"edge", func(c *datapath.Config) { c.Node.Interfaces[0].Roles = 0 }, datapath.AttachXDP},
		} {
			d, err := datapath.Open(datapath.Options{PinPath: path})
			if err != nil {
				return err
			}
			config := configuration(index(t), datapath.AttachAuto)
			tt.change(&config)
			if err := d.Apply(config); err != nil {
				return err
			}
			if got := d.Interfaces()[0].Ingress; got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
			if err := d.Apply(configuration(index(t), datapath.AttachAuto)); err != nil {
				return err
			}
			if got := d.Interfaces()[0].Ingress; got != tt.want {
				t.Errorf("%s, then fills: %s, want %s as before", tt.name, got, tt.want)
			}
			if err := d.Remove(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
