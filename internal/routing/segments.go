// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/netlinkattr"
)

// segments is what is known of routes that encapsulate or have segments.
type segments struct {
	routes   []encapRoute // as last read
	prefixes map[netip.Prefix]bool
	stale    bool // they must be read again

	source netip.Addr // ip sr tunsrc
	label  int        // net.ipv6.seg6_flowlabel
	hooks  bool       // net.netfilter.nf_hooks_lwtunnel

	compiled bool
	with     conditions
	list     []datapath.SegmentRoute
	number   int // of the list
}

// any reports whether there are such routes.
func (s *segments) any() bool { return len(s.routes) > 0 }

// examineRoute examines the shape of a route that was added or removed. It clears the shape's
// encapsulations: they are only for a table that was read as a whole.
func (s *segments) examineRoute(of *shape) {
	s.stale = s.stale || len(of.encaps) > 0 || of.hidden || s.prefixes[of.concerns]
	of.encaps = nil
}

// set takes the routes that were read.
func (s *segments) set(routes []encapRoute) {
	s.routes, s.compiled, s.prefixes = routes, false, make(map[netip.Prefix]bool)
	for _, r := range routes {
		s.prefixes[r.prefix] = true
	}
}

// hasSegments reports whether programs can know the behaviour of each route, and
// compiles the behaviours if so.
func (t *traits) hasSegments(rules needs, routes shape) bool {
	s := &t.segments
	if !s.any() || s.stale || t.messagesLost || t.whyNoSegments(rules, routes) != "" {
		return false
	}
	with := conditions{spread: routes.spread, source: s.source, label: s.label}
	if !s.compiled || with != s.with {
		s.list, s.with, s.compiled = compileEncaps(s.routes, with), with, true
		s.number++
	}
	return true
}

// whyNoSegments says why the stack has all routes with segments; "" if it need not.
func (t *traits) whyNoSegments(rules needs, routes shape) string {
	switch {
	case !t.segments.any():
	case rules.varies:
		return "a rule looks into a table other than local and main, or selects by more than the destination"
	case routes.hidden:
		return "a next hop, or a route of the table local, has encap"
	case t.segments.hooks:
		return "net.netfilter.nf_hooks_lwtunnel is set"
	case t.settings.hmac:
		return "an interface has seg6_require_hmac"
	}
	return ""
}

// segmentsLeft is whyNoSegments of what is known now.
func (t *traits) segmentsLeft() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.whyNoSegments(t.rules.all(), t.routes.all())
}

// segmentRoutes returns the behaviours of all routes, and a number that changes with
// them.
func (t *traits) segmentRoutes() ([]datapath.SegmentRoute, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.segments.list, t.segments.number
}

// readSegments reads the settings on which behaviours depend.
func (t *traits) readSegments() error {
	t.mu.Lock()
	read := t.segments.any()
	t.mu.Unlock()
	if !read {
		return nil
	}
	source, err := tunnelSource()
	label, e := sysctl("seg6_flowlabel")
	hooks, e2 := netfilterHooks()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.segments.source, t.segments.label, t.segments.hooks = source, label, hooks
	return errors.Join(err, e, e2)
}

// netfilterHooks reports whether netfilter sees packets in lightweight tunnels.
func netfilterHooks() (bool, error) {
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_hooks_lwtunnel")
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("read a setting: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return n != 0, err
}

// The generic netlink family of segment routing (linux/seg6_genl.h).
const (
	segmentFamily   = "SEG6"
	segmentVersion  = 1
	commandTunnel   = 4 // SEG6_CMD_GET_TUNSRC
	attributeTunnel = 1 // SEG6_ATTR_DST
)

// tunnelSource is the source of the kernel's encapsulations, :: if it chooses one for
// each.
func tunnelSource() (source netip.Addr, err error) {
	family, err := netlink.GenlFamilyGet(segmentFamily)
	if err != nil {
		return source, fmt.Errorf("read the source of encapsulations (ip sr tunsrc show): %w", err)
	}
	request := nl.NewNetlinkRequest(int(family.ID), 0)
	request.AddData(genericHeader{commandTunnel, segmentVersion})
	messages, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return source, fmt.Errorf("read the source of encapsulations (ip sr tunsrc show): %w", err)
	}
	for _, m := range messages {
		if len(m) < genericHeaderLength {
			continue
		}
		netlinkattr.Each(m[genericHeaderLength:], func(kind uint16, value []byte) {
			if kind == attributeTunnel && len(value) == 16 {
				source = netip.AddrFrom16([16]byte(value))
			}
		})
	}
	return source, nil
}

// Segments reads the behaviours of the kernel's routes once, for a node whose routes do
// not change; an agent has Watch. Nil: none, or programs cannot know them.
func Segments() ([]datapath.SegmentRoute, error) {
	t := &traits{entrances: func() map[model.IfIndex]datapath.Entrance { return nil }}
	if err := errors.Join(t.readRoutes(), t.readRules(), t.readLinks(), t.readSegments()); err != nil {
		return nil, err
	}
	if !t.hasSegments(t.rules.all(), t.routes.all()) {
		return nil, nil
	}
	return t.segments.list, nil
}
