// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

// A carrierRow is a column of the table of what marks packets in which form. What is not
// refused is measured.
type carrierRow struct {
	name    string
	marking model.Marking
	refused map[string]string // forms, and unmonitored: clear; with what the error says
}

const (
	needsKeep   = "use unmonitored: keep"
	needsTunnel = "use encap or encap.red"
)

func carrierRows() []carrierRow {
	class := model.Marking{Mask: 0x1c, Colours: [2]uint8{0x04, 0x0c}, Delay: &[2]uint8{0x14, 0x1c}}
	argument := model.Marking{
		Carrier: model.CarrierArgument,
		Octet:   13,
		Mask:    0xc1,
		Colours: [2]uint8{0x40, 0x80},
		Delay:   &[2]uint8{0x41, 0xc1},
	}
	options := map[string]string{"inline": needsTunnel, "inline, PSP": "measure inline packets before", "clear": needsKeep}
	return []carrierRow{
		{"DS field", class, map[string]string{"inline, PSP": "measure inline packets before"}},
		{"argument", argument, map[string]string{
			"inline": needsTunnel, "inline, PSP": "measure inline packets before", "clear": needsKeep,
			"container": "use carrier: traffic-class or option", "containers": "use carrier: traffic-class or option",
		}},
		{"Destination Options", model.OptionMarking(false), options},
		{"Hop-by-Hop", model.OptionMarking(true), options},
	}
}

// A formRow is a form in which the kernel gives packets their segments, two routers carry them
// out, and a flow names them.
type formRow struct {
	name, mode string // of ip
	segments   string
	path       srv6.Path
}

// formRows are the forms of a flow. The last router has all of fc00:3::/32, so that a SID may
// have an argument.
func formRows() []formRow {
	rows := []formRow{
		{name: "SRH", mode: "encap", segments: "fc00:2::e,fc00:3::1:0:0"},
		{name: "SRH of one", mode: "encap", segments: "fc00:3::2:0:0"},
		{name: "SRH of four", mode: "encap", segments: "fc00:2::e,fc00:2::f,fc00:2::d,fc00:3::3:0:0"},
		{name: "reduced", mode: "encap.red", segments: "fc00:2::e,fc00:3::4:0:0"},
		{name: "no SRH", mode: "encap.red", segments: "fc00:3::5:0:0"},
		{name: "PSP", mode: "encap", segments: "fc00:2:1::e,fc00:3::6:0:0", path: srv6.Path{Popped: true}},
		{name: "reduced, PSP", mode: "encap.red", segments: "fc00:2:1::e,fc00:3::7:0:0", path: srv6.Path{Popped: true}},
		{name: "container", mode: "encap.red", segments: "fcbb:bb00:2:3::", path: srv6.Path{Compression: srv6.Compression{Block: 32, SID: 16}}},
		{name: "containers", mode: "encap", segments: "fcbb:bb00:2:2::,fcbb:bb00:2:2:2::,fc00:3::8:0:0", path: srv6.Path{Compression: srv6.Compression{Block: 32, SID: 16}}},
		{name: "frames", mode: "l2encap.red", segments: "fc00:2::e,fc00:4::9:0:0"},
		{name: "inline", mode: "inline", segments: "fc00:2::e"},
		{name: "inline, PSP", mode: "inline", segments: "fc00:2:1::e", path: srv6.Path{Popped: true}},
	}
	for i := range rows {
		r := &rows[i]
		for _, sid := range strings.Split(r.segments, ",") {
			r.path.Segments = append(r.path.Segments, netip.MustParseAddr(sid))
		}
		switch r.mode {
		case "encap.red", "l2encap.red":
			r.path.Mode = srv6.ModeReduced
		case "inline":
			r.path.Mode = srv6.ModeInline
		}
	}
	return rows
}

// destination is that of a form's packets before they get segments.
func (r formRow) destination(i int) string { return fmt.Sprintf("2001:db8:f:%x::1", i+1) }

// raisePath raises three routers of the kernel's: the first gives packets their segments, one
// form to a destination each.
func raisePath(t *testing.T, rows []formRow) (path [3]kernelRouter) {
	t.Helper()
	const via, local = " via 2001:db8:99::2 dev eth1", " dev eth1"
	first := []string{"sr tunsrc set 2001:db8:ff::1", "-6 route add fc00::/16" + via, "-6 route add fcbb:bb00::/32" + via}
	for i, r := range rows {
		first = append(first, fmt.Sprintf("-6 route add %s encap seg6 mode %s segs %s", r.destination(i), r.mode, r.segments)+local)
	}
	path[0] = raiseRouter(t, first...)
	path[1] = raiseRouter(t, "-6 route add fc00::/16"+via, "-6 route add fcbb:bb00::/32"+via, "-6 route add 2001:db8:f::/48"+via,
		"-6 route add fc00:2::/64 encap seg6local action End"+local,
		"-6 route add fc00:2:1::/64 encap seg6local action End flavors psp"+local,
		"-6 route add fcbb:bb00:2::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16"+local)
	path[2] = raiseRouter(t, "-6 route add 2001:db8:f::/48"+via,
		"-6 route add fc00:3::/32 encap seg6local action End.DT6 table 254"+local,
		"-6 route add fcbb:bb00:3::/48 encap seg6local action End.DT6 table 254"+local,
		"-6 route add fc00:4::/32 encap seg6local action End.DX2 oif eth1"+local)
	return path
}

// measuredRow is a flow of a form with a carrier.
func measuredRow(c carrierRow, r formRow, number int, direction model.Direction) model.MeasuredFlow {
	f := model.MeasuredFlow{
		Name:      r.name + ", " + direction.String(),
		Direction: direction,
		Path:      r.path,
		Source:    netip.MustParseAddr("2001:db8:ff::1"),
	}
	if r.path.Mode == srv6.ModeInline {
		f.Source = netip.MustParseAddr("2001:db8:1::2")
	}
	if c.marking.Carrier == model.CarrierOption && direction != model.DirectionIn { // that finds packets by their segments
		id := uint32(0x12300 + number)
		f.MonitorID = &id
	}
	return f
}

var directions = []model.Direction{model.DirectionOut, model.DirectionTransit, model.DirectionIn}

// checkRefused checks that the configuration refuses what the table says, and nothing else, and
// returns the forms that are left.
func checkRefused(t *testing.T, c carrierRow, rows []formRow) (allowed map[string]bool) {
	t.Helper()
	allowed = make(map[string]bool)
	holds := func(what string, clears bool, flow model.MeasuredFlow) {
		t.Helper()
		cfg := rightConfig()
		cfg.Measurement = model.Measurement{Block: time.Second, Marking: c.marking, Clear: clears, Flows: []model.MeasuredFlow{flow}}
		err, cause := cfg.Validate(), c.refused[what]
		if (err != nil) != (cause != "") || err != nil && !strings.Contains(err.Error(), cause) {
			t.Errorf("%s, %s, %v: %v; want it refused with %q", c.name, what, flow.Direction, err, cause)
		}
		allowed[what] = err == nil
	}
	for _, direction := range directions {
		for i, r := range rows {
			holds(r.name, false, measuredRow(c, r, i, direction))
		}
		holds("clear", true, measuredRow(c, rows[0], 0, direction))
	}
	return allowed
}
