// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
)

// EncapSpec is what a route does to its packets: it gives them segments (seg6), or does
// what a SID of this node stands for (seg6local).
type EncapSpec struct {
	Mode     string       // seg6: encap, encap.red or inline
	Segments []netip.Addr // seg6: the first to visit first

	Action  string     // seg6local
	NextHop netip.Addr // seg6local: of End.X and End.DX6
	Table   int        // seg6local: of End.DT6
}

// local reports whether the route is of a SID of this node.
func (e *EncapSpec) local() bool { return e != nil && e.Action != "" }

// maxSegments is what an SRH holds within the kernel's own limit, and as many as a
// measured flow may have.
const maxSegments = 16

// modes are the kernel's numbers of the modes (linux/seg6_iptunnel.h).
var modes = map[string]int{"inline": nl.SEG6_IPTUN_MODE_INLINE, "encap": nl.SEG6_IPTUN_MODE_ENCAP, "encap.red": 3}

// argument is the word that an action of seg6local needs.
var actions = map[string]struct {
	number   int
	argument string
}{
	"End":     {nl.SEG6_LOCAL_ACTION_END, ""},
	"End.X":   {nl.SEG6_LOCAL_ACTION_END_X, "nh6"},
	"End.DX6": {nl.SEG6_LOCAL_ACTION_END_DX6, "nh6"},
	"End.DT6": {nl.SEG6_LOCAL_ACTION_END_DT6, "table"},
}

const (
	seg6Form      = "seg6 mode encap|encap.red|inline segs SID,SID..."
	seg6LocalForm = "seg6local action End, End.X nh6 ADDRESS, End.DX6 nh6 ADDRESS or End.DT6 table N"
)

// parseEncap reads the words that follow "encap" in "ip -6 route add".
func parseEncap(text string) (*EncapSpec, error) {
	words := strings.Fields(text)
	switch {
	case len(words) == 5 && words[0] == "seg6" && words[1] == "mode" && words[3] == "segs":
		return parseSeg6(words[2], words[4])
	case len(words) >= 3 && words[0] == "seg6local" && words[1] == "action":
		return parseSeg6Local(words[2], words[3:])
	}
	return nil, problem.New(fmt.Sprintf("%q is not understood", text), "write "+seg6Form+", or "+seg6LocalForm)
}

func parseSeg6(mode, list string) (*EncapSpec, error) {
	if _, ok := modes[mode]; !ok {
		return nil, problem.New(fmt.Sprintf("mode %q is unknown", mode), "write "+seg6Form)
	}
	e := &EncapSpec{Mode: mode}
	for sid := range strings.SplitSeq(list, ",") {
		a, err := parseAddress(sid)
		if err != nil {
			return nil, err
		}
		e.Segments = append(e.Segments, a)
	}
	if len(e.Segments) > maxSegments {
		return nil, problem.New(fmt.Sprintf("%d segments are too many", len(e.Segments)), fmt.Sprintf("the limit is %d", maxSegments))
	}
	return e, nil
}

func parseSeg6Local(name string, rest []string) (*EncapSpec, error) {
	action, ok := actions[name]
	wanted := 2
	if action.argument == "" {
		wanted = 0
	}
	if !ok || len(rest) != wanted || wanted > 0 && rest[0] != action.argument {
		return nil, problem.New(
			fmt.Sprintf("action %q is not understood", strings.Join(append([]string{name}, rest...), " ")),
			"write "+seg6LocalForm,
		)
	}
	e := &EncapSpec{Action: name}
	var err error
	switch action.argument {
	case "nh6":
		e.NextHop, err = parseAddress(rest[1])
	case "table":
		e.Table, err = strconv.Atoi(rest[1])
		if err != nil || e.Table < 1 || e.Table > unix.RT_TABLE_LOCAL {
			err = problem.New(
				fmt.Sprintf("table %q is not a number from 1 to %d", rest[1], unix.RT_TABLE_LOCAL),
				fmt.Sprintf("the main table is %d", unix.RT_TABLE_MAIN),
			)
		}
	}
	return e, err
}

func parseAddress(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() || a.Is4In6() || a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%q is not an IPv6 address", s)
	}
	return a, nil
}

// kernel is the form in which the kernel takes it; nil of a route without.
func (e *EncapSpec) kernel() netlink.Encap {
	switch {
	case e == nil:
		return nil
	case !e.local():
		// The SRH has the last segment first (RFC 8754 §2). Of mode inline, the kernel
		// writes the packet's own destination over the first entry.
		var segments []net.IP
		if e.Mode == "inline" {
			segments = append(segments, net.IPv6zero)
		}
		for _, s := range slices.Backward(e.Segments) {
			segments = append(segments, s.AsSlice())
		}
		return &netlink.SEG6Encap{Mode: modes[e.Mode], Segments: segments}
	}
	local := &netlink.SEG6LocalEncap{Action: actions[e.Action].number, Table: e.Table}
	local.Flags[nl.SEG6_LOCAL_ACTION] = true
	local.Flags[nl.SEG6_LOCAL_TABLE] = e.Table > 0
	if e.NextHop.IsValid() {
		local.Flags[nl.SEG6_LOCAL_NH6] = true
		local.In6Addr = e.NextHop.AsSlice()
	}
	return local
}

// Of the generic netlink family SEG6 (linux/seg6_genl.h).
const (
	seg6Family      = "SEG6"
	seg6SetTunsrc   = 3
	seg6AttrDst     = 1
	seg6GenlVersion = 1
	seg6Missing     = "this kernel has no segment routing (CONFIG_IPV6_SEG6_LWTUNNEL)"
)

// setTunnelSource does what "ip sr tunsrc set" does, in this thread's namespace.
func setTunnelSource(source netip.Addr) error {
	family, err := netlink.GenlFamilyGet(seg6Family)
	if errors.Is(err, unix.ENOENT) {
		return errors.New(seg6Missing)
	}
	if err != nil {
		return fmt.Errorf("find the kernel's segment routing: %w", err)
	}
	request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	request.AddData(&nl.Genlmsg{Command: seg6SetTunsrc, Version: seg6GenlVersion})
	request.AddData(nl.NewRtAttr(seg6AttrDst, source.AsSlice()))
	if _, err := request.Execute(unix.NETLINK_GENERIC, 0); err != nil {
		return fmt.Errorf("set the source of segment routing to %v: %w", source, err)
	}
	return nil
}
