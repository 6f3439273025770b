// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/netlinkattr"
	"github.com/waymark-net/waymark/ioam"
)

// traits is what the choice of a route depends on, as far as was seen.
type traits struct {
	// unknown: messages were lost, so all routes must be read.
	unknown atomic.Bool
	// spread: some route has several next hops, or asks for the source.
	spread atomic.Bool
	// added is what rules ask for that came since all were read.
	added atomic.Uint32
	// policies of IPsec came since all were read.
	policies atomic.Bool
	// leaving counts looks since an interface went that forwards fast.
	leaving atomic.Int32
	isFast  func(ioam.IfIndex) bool

	mu     sync.Mutex
	known  bool // everything was read once
	byRule datapath.RouteKey
	hash   int  // net.ipv6.fib_multipath_hash_policy
	off    bool // nothing is forwarded, or something could not be read
	ipsec  bool // some packets are to be encrypted

	silent    map[ioam.IfIndex]bool // interfaces without IPv6
	byArrival bool                  // some rule asks for the interface of arrival
}

// note looks at one message for what changes the way routes are chosen, and
// tells whether it may change where an IPv6 packet goes. Routes are not counted:
// what was seen once stays, for it costs little.
func (t *traits) note(kind, flags uint16, data []byte) bool {
	switch kind {
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		return len(data) > 0 && data[0] == unix.AF_INET6
	case unix.RTM_DELLINK:
		// its program may go on in another network namespace, with the
		// numbers of interfaces there, until the agent has taken it off
		if len(data) > 0 && data[0] == unix.AF_UNSPEC && t.isFast(indexOfLink(data)) {
			t.leaving.Store(looksAfterLeaving)
		}
	case unix.RTM_NEWLINK:
		if t.hasByArrival() && hasMaster(data) {
			t.added.Or(uint32(datapath.RouteByStack)) // until it is known whose member it is
		}
	case unix.RTM_NEWRULE:
		key, arrival := keyOfRule(data)
		if arrival != "" {
			key |= datapath.RouteByStack // until it is known what that is
		}
		t.added.Or(uint32(key))
	case unix.RTM_NEWNEXTHOP:
		t.spread.Store(true) // a group may be behind any route that names it
	case unix.RTM_NEWROUTE:
		if flags&unix.NLM_F_APPEND != 0 || isSpread(data) {
			t.spread.Store(true)
		}
	}
	return true
}

// hasMaster tells whether a link is a member of another.
func hasMaster(link []byte) (member bool) {
	if len(link) < unix.SizeofIfInfomsg {
		return true
	}
	netlinkattr.Each(link[unix.SizeofIfInfomsg:], func(kind uint16, _ []byte) { member = member || kind == unix.IFLA_MASTER })
	return member
}

// looksAfterLeaving is for how many looks an interface that forwarded fast, and
// went, makes the stack forward all.
const looksAfterLeaving = 2

// routeNextHopID is RTA_NH_ID: the route's next hops are an object of their own.
const routeNextHopID = 30

// isSpread tells whether a route has several next hops or depends on the source,
// or may: what is not understood does.
func isSpread(route []byte) bool {
	if len(route) < unix.SizeofRtMsg {
		return true
	}
	if nl.DeserializeRtMsg(route).Src_len > 0 {
		return true
	}
	spread := false
	whole := netlinkattr.Each(route[unix.SizeofRtMsg:], func(kind uint16, _ []byte) {
		spread = spread || kind == unix.RTA_MULTIPATH || kind == routeNextHopID
	})
	return spread || !whole
}

// key is what the data plane must look at beside the destination.
func (t *traits) key() datapath.RouteKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := t.byRule | datapath.RouteKey(t.added.Load())
	if !t.known || t.off || t.ipsec || t.policies.Load() || t.leaving.Load() > 0 || key&datapath.RouteByStack != 0 {
		return datapath.RouteByStack
	}
	if t.unknown.Load() {
		key = datapath.RouteByPorts // until all has been read
	}
	if t.spread.Load() {
		switch {
		case t.hash == 0 && key != datapath.RouteByPorts: // source, destination, flow label
			key |= datapath.RouteByFlow
		case t.hash == 1: // ports
			key |= datapath.RouteByPorts
		default: // the inner packet; fields that the operator chose; ports for rules, but not for the hash
			return datapath.RouteByStack
		}
	}
	return key
}

// read looks at everything that no message may have told.
func (t *traits) read() error {
	var errs []error
	if t.unknown.Swap(false) || !t.hasRead() {
		spread, err := anySpread()
		switch {
		case spread:
			t.spread.Store(true)
		case err != nil:
			t.unknown.Store(true)
			errs = append(errs, missing(err))
		}
	}
	t.added.Store(0)
	byRule, arrivals, err := keyOfRules()
	if err != nil {
		byRule |= t.ruleKey() | datapath.RouteByPorts
		errs = append(errs, missing(err))
	}
	vrf, err := meetsVRF(arrivals)
	errs = append(errs, err)
	if vrf {
		byRule |= datapath.RouteByStack
	}
	silent, err := withoutIPv6()
	errs = append(errs, err)
	for index := range silent {
		if t.isFast(index) { // what arrives there must meet the stack
			byRule |= datapath.RouteByStack
		}
	}
	hash, err := sysctl("fib_multipath_hash_policy")
	if errors.Is(err, os.ErrNotExist) {
		hash, err = 0, nil
	}
	errs = append(errs, err)
	forwards, err := sysctl("conf/all/forwarding")
	errs = append(errs, err)

	t.policies.Store(false)
	ipsec, err := hasPolicies()
	errs = append(errs, err)
	if n := t.leaving.Load(); n > 0 {
		t.leaving.CompareAndSwap(n, n-1)
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	err = errors.Join(errs...)
	t.byRule, t.hash, t.ipsec, t.off, t.known = byRule, hash, ipsec, forwards == 0 || err != nil, true
	t.silent, t.byArrival = silent, len(arrivals) > 0
	return err
}

// missing is an error that is more than that something changed while it was read.
func missing(err error) error {
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil
	}
	return err
}

func (t *traits) hasRead() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known
}

func (t *traits) hasByArrival() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byArrival
}

// sending are those of the interfaces that the kernel lets IPv6 out of.
func (t *traits) sending(list []ioam.IfIndex) []ioam.IfIndex {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(list, func(i ioam.IfIndex) bool { return t.silent[i] })
}

func (t *traits) ruleKey() datapath.RouteKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byRule
}

// anySpread reads every route.
func anySpread() (bool, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
	request.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET6}})
	spread := false
	err := request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE, func(m []byte) bool {
		spread = spread || isSpread(m)
		return !spread
	})
	if err != nil {
		return spread, fmt.Errorf("read the routes: %w", err)
	}
	return spread, nil
}

// The attributes of a policy rule (linux/fib_rules.h), by what they make of the
// choice of a route.
var (
	// known to the data plane in any case, or not about forwarded packets
	ruleByDestination        = []uint16{1, ruleArrival, 4, 6, 11, 13, 14, 15, 16, 17, 18, 19, 20, 21}
	ruleArrival       uint16 = 3
	ruleMark          uint16 = 10
	// source, DSCP, flow label and its mask, DSCP's mask
	ruleByFlow = []uint16{2, 25, 26, 27, 30}
)

// keyOfRules is what the policy rules ask for, and the interfaces of arrival in
// them. A rule of a kind that is not known here makes the kernel choose for
// every packet.
func keyOfRules() (datapath.RouteKey, map[string]bool, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETRULE, unix.NLM_F_DUMP)
	request.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET6}})
	key, arrivals := datapath.RouteByDestination, make(map[string]bool)
	err := request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWRULE, func(m []byte) bool {
		one, arrival := keyOfRule(m)
		if key |= one; arrival != "" {
			arrivals[arrival] = true
		}
		return true
	})
	if err != nil {
		return key, arrivals, fmt.Errorf("read the rules: %w", err)
	}
	return key, arrivals, nil
}

// keyOfRule is what one asks for, and its interface of arrival.
func keyOfRule(rule []byte) (key datapath.RouteKey, arrival string) {
	if len(rule) < unix.SizeofRtMsg {
		return datapath.RouteByPorts, ""
	}
	if nl.DeserializeRtMsg(rule).Tos != 0 {
		key = datapath.RouteByFlow
	}
	whole := netlinkattr.Each(rule[unix.SizeofRtMsg:], func(kind uint16, value []byte) {
		if kind == ruleArrival {
			arrival = text(value)
		}
		switch {
		case kind == ruleMark:
			if slices.ContainsFunc(value, func(b byte) bool { return b != 0 }) {
				key |= datapath.RouteByStack // marks are made where the data plane is not
			}
		case slices.Contains(ruleByDestination, kind):
		case slices.Contains(ruleByFlow, kind):
			key |= datapath.RouteByFlow
		default:
			key |= datapath.RouteByPorts
		}
	})
	if !whole {
		key |= datapath.RouteByPorts
	}
	return key, arrival
}

// hasPolicies tells whether IPsec has a say in what leaves: then only the stack
// may send.
func hasPolicies() (bool, error) {
	policies, err := netlink.XfrmPolicyList(netlink.FAMILY_V6)
	switch {
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EPERM):
		return false, nil // a kernel without, or one where nobody could set them
	case err != nil && !errors.Is(err, netlink.ErrDumpInterrupted):
		return true, fmt.Errorf("read IPsec's policies: %w", err)
	}
	return slices.ContainsFunc(policies, func(p netlink.XfrmPolicy) bool { return p.Dir != netlink.XFRM_DIR_IN }), nil
}

func sysctl(name string) (int, error) {
	b, err := os.ReadFile("/proc/sys/net/ipv6/" + name)
	if err != nil {
		return 0, fmt.Errorf("read a setting: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}
