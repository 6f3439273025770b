// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pintest"
)

// TestSetPathMTU changes a running encapsulation's path MTU; encapsulation makes
// a packet of 104 bytes 160 bytes long.
func TestSetPathMTU(t *testing.T) {
	l := raise(t, "wm-dp-pmtu")
	ping := l.Topology().Traffic[0]
	near, far := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	tunnelled := func(i model.IfIndex, name string, pathMTU int) datapath.Config {
		cfg := configuration(i, tcModes(t)[0])
		cfg.Node.Encapsulations = []model.Encapsulation{{
			Name: name, Interface: i, Mode: model.ModeEncap, PathMTU: pathMTU,
			TunnelSource: near, TunnelDestination: far,
			Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0x800000, Size: 4}),
		}}
		return cfg
	}
	open := func(node, path string, configure func(model.IfIndex) datapath.Config) (d *datapath.Datapath, i model.IfIndex) {
		t.Helper()
		err := l.Node(node).Do(func() (err error) {
			i = index(t)
			if d, err = datapath.Open(datapath.Options{PinPath: path}); err != nil {
				return err
			}
			return d.Apply(configure(i))
		})
		if err != nil {
			t.Fatal(err)
		}
		return d, i
	}
	end, _ := open("far", pintest.Directory(t), func(i model.IfIndex) datapath.Config {
		cfg := configuration(i, tcModes(t)[0])
		cfg.Node.Decapsulations = []model.Decapsulation{{TunnelDestination: far}}
		return cfg
	})
	defer end.Remove()
	d, i := open("near", pintest.Directory(t), func(i model.IfIndex) datapath.Config { return tunnelled(i, "core", 0) })
	defer d.Remove()
	reapply := func(name string, pathMTU int) error {
		return l.Node("near").Do(func() error { return d.Apply(tunnelled(i, name, pathMTU)) })
	}
	const length = 40 + 24 + 104 // outer header, Hop-by-Hop header, ping
	for _, step := range []struct {
		name   string
		change func() error
		want   model.Outcome
	}{
		{"not known", func() error { return nil }, model.OutcomeEncapTunneled},
		{"too small", func() error { return d.SetPathMTU("core", length-1) }, model.OutcomeEncapSkippedMTU},
		{"another one's", func() error { return d.SetPathMTU("other", length) }, model.OutcomeEncapSkippedMTU},
		{"large enough", func() error { return d.SetPathMTU("core", length) }, model.OutcomeEncapTunneled},
		{"configured", func() error { return reapply("core", length-1) }, model.OutcomeEncapSkippedMTU},
		{"forgotten", func() error { return d.SetPathMTU("core", 0) }, model.OutcomeEncapTunneled},
		{"a new generation", func() error { return reapply("other", 0) }, model.OutcomeEncapTunneled},
		{"of which it is", func() error { return d.SetPathMTU("other", length-1) }, model.OutcomeEncapSkippedMTU},
		{"of which it is not", func() error { return d.SetPathMTU("core", length) }, model.OutcomeEncapSkippedMTU},
	} {
		if err := step.change(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		got, err := outcomes(d, func() error { return send(t, l, ping) })
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if len(got) != 1 || got[step.want] != uint64(ping.Count) {
			t.Errorf("%s: %v, want %d %v", step.name, got, ping.Count, step.want)
		}
	}
}

// send sends pings, all of which must be answered.
func send(t *testing.T, l *lab.Lab, ping lab.Traffic) error {
	r, err := l.Send(t.Context(), ping)
	if err == nil && r.Received != ping.Count {
		err = fmt.Errorf("of %d pings, %d were answered", ping.Count, r.Received)
	}
	return err
}

// outcomes are the encapsulation outcomes that the egress hook counts during a
// call.
func outcomes(d *datapath.Datapath, meanwhile func() error) (map[model.Outcome]uint64, error) {
	before, err := d.Counters()
	if err != nil {
		return nil, err
	}
	if err := meanwhile(); err != nil {
		return nil, err
	}
	after, err := d.Counters()
	if err != nil {
		return nil, err
	}
	moved := make(map[model.Outcome]uint64)
	for o := model.OutcomeEncapSkippedHBH; o <= model.OutcomeEncapTunneled; o++ {
		if n := after[0].Egress[o] - before[0].Egress[o]; n > 0 {
			moved[o] = n
		}
	}
	return moved, nil
}
