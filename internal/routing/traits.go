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
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// traits are the properties on which forwarding depends. Messages add to those
// that were last read, until they are read again.
type traits struct {
	entrances func() map[model.IfIndex]datapath.Entrance // the interfaces that forward fast

	mu    sync.Mutex
	known bool // everything was read once

	rules        seen[needs, *needs]
	routes       seen[shape, *shape]
	reread       time.Time // routes are not read again before
	messagesLost bool      // messages were lost, so routes must be read
	routeRemoved bool      // a route was removed that may have been the last of its shape
	ruleRemoved  bool      // a rule was removed
	links        string    // why a link makes the stack forward all, when all were read
	link         string    // the same, for a link added since
	policies     bool      // an IPsec policy was added since all were read
	leaving      int       // looks left after an interface that forwards fast was removed

	segments segments

	settings settings
	linkMTU  uint32 // the smallest MTU of the links that changed since all were read; 0: none
	hash     int    // net.ipv6.fib_multipath_hash_policy
	node     string // why the node's settings make the stack forward all
}

// seen holds what was read, and what messages have added since.
type seen[T any, P interface {
	*T
	add(T)
}] struct{ read, added T }

func (s *seen[T, P]) all() T {
	all := s.read
	P(&all).add(s.added)
	return all
}

// examineMessage examines one message for changes in how routes are chosen. It reports whether
// the message may change where an IPv6 packet goes.
func (t *traits) examineMessage(kind, flags uint16, data []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch kind {
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		return len(data) > 0 && data[0] == unix.AF_INET6
	case unix.RTM_DELLINK:
		t.segments.stale = t.segments.stale || t.segments.any()
		// its program may continue in another network namespace, with that
		// namespace's interface numbers, until the agent has removed it
		if _, fast := t.entrances()[indexOfLink(data)]; fast && data[0] == unix.AF_UNSPEC {
			t.leaving = looksAfterLeaving
		}
	case unix.RTM_NEWLINK:
		t.segments.stale = t.segments.stale || t.segments.any() // routes by a link that is down are passed over
		t.linkMTU = least(t.linkMTU, linkMTU(data))
		if len(data) == 0 || data[0] != unix.AF_UNSPEC {
			break // about a bridge's port, or only about IPv6
		}
		if l, whole := parseLink(data); !whole {
			t.link = "a link cannot be read"
		} else if why := l.diverts(t.entrances()); why != "" {
			t.link = why
		}
	case unix.RTM_NEWRULE:
		t.rules.added.add(needsOfRule(data))
	case unix.RTM_NEWNEXTHOP:
		t.routes.added.add(shapeOfNextHop(data)) // any route may use the group
	case unix.RTM_NEWROUTE:
		t.routeRemoved = t.routeRemoved || flags&unix.NLM_F_REPLACE != 0
		s := shapeOfRoute(data)
		s.spread = s.spread || flags&unix.NLM_F_APPEND != 0
		t.segments.examineRoute(&s)
		t.routes.added.add(s)
	case unix.RTM_DELROUTE:
		t.routeRemoved = true
		s := shapeOfRoute(data)
		t.segments.examineRoute(&s)
	case unix.RTM_DELNEXTHOP:
		t.routeRemoved = true
	case unix.RTM_DELRULE:
		t.ruleRemoved = true
	}
	return true
}

// noteLoss records that messages were lost.
func (t *traits) noteLoss() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messagesLost = true
}

// notePolicy records an IPsec policy.
func (t *traits) notePolicy() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.policies = true
}

const (
	// looksAfterLeaving is for how many looks the removal of an interface that
	// forwarded fast makes the stack forward all packets.
	looksAfterLeaving = 2
	// If fewer properties may matter than before, they are soon read again.
	// Because routes may be many, the pause is at least this many times the
	// duration of reading.
	rereadPause  = 100 * time.Millisecond
	rereadFactor = 50
)

// routing returns the fields that the data plane must use besides the
// destination, and why only the stack can forward, if so.
func (t *traits) routing() (datapath.Routing, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rules, routes := t.rules.all(), t.routes.all()
	if why := t.whyStack(rules, routes); why != "" {
		return datapath.Routing{Key: datapath.RouteByStack}, why
	}
	key := rules.key
	if t.messagesLost {
		key = datapath.RouteByPorts // until all has been read
	}
	if routes.spread {
		key |= datapath.RouteByFlow // source, destination, flow label
	}
	return datapath.Routing{Key: key, MTU: t.mtu(routes), Segments: t.hasSegments(rules, routes)}, ""
}

func (t *traits) whyStack(rules needs, routes shape) string {
	switch {
	case !t.known:
		return "the kernel's routes have not been read yet"
	case t.leaving > 0:
		return "an interface with forwarding: fast has just disappeared"
	case t.node != "":
		return t.node
	case t.policies:
		return ipsecDecides
	case rules.why != "":
		return rules.why
	case routes.why != "":
		return routes.why
	case t.links != "":
		return t.links
	case t.link != "":
		return t.link
	case routes.spread && t.hash != 0:
		return fmt.Sprintf(
			"routes have several next hops, and net.ipv6.fib_multipath_hash_policy is %d: the stack hashes fields that a program does not see",
			t.hash,
		)
	case routes.spread && (rules.key == datapath.RouteByPorts || t.messagesLost):
		return "routes have several next hops, and rules choose by ports"
	}
	return ""
}

const ipsecDecides = "IPsec has policies for what is forwarded"

// mtu is the size up to which the kernel's lookup reports MTUs correctly:
// it ignores a route's MTU without a lock, and uses one with a lock
// even where the link's is smaller.
func (t *traits) mtu(routes shape) uint16 {
	mtu := routes.mtu
	if smallest := least(t.settings.smallestMTU, t.linkMTU); routes.locked > smallest {
		mtu = least(mtu, smallest)
	}
	if mtu == 0 {
		return datapath.AnyMTU
	}
	return uint16(min(mtu, uint32(datapath.AnyMTU)))
}

// read reads everything that messages may not have reported.
func (t *traits) read() error {
	err := errors.Join(t.readRoutes(), t.readRules(), t.readLinks())
	node, e := t.readNode()
	if err = errors.Join(err, e, t.readSegments()); err != nil {
		node = "the kernel's routes cannot be read: " + err.Error()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.node, t.known = node, true
	t.leaving = max(t.leaving-1, 0)
	return err
}

// readRoutes reads routes when messages were lost, or when fewer of their
// properties may matter.
func (t *traits) readRoutes() error {
	t.mu.Lock()
	all := t.routes.all()
	due := !t.known || t.messagesLost || (t.segments.stale || t.routeRemoved && !all.plain()) && time.Now().After(t.reread)
	if due { // messages from now on add to what is read
		t.messagesLost, t.routeRemoved, t.segments.stale, t.routes.added = false, false, false, shape{}
	}
	t.mu.Unlock()
	if !due {
		return nil
	}
	began := time.Now()
	read, err := shapeOfRoutes()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reread = time.Now().Add(max(rereadPause, rereadFactor*time.Since(began)))
	if err != nil {
		read.add(all)
		t.messagesLost = true
	}
	t.routes.read = read
	t.segments.set(read.encaps)
	return missing(err)
}

// refreshIn is when to read again what may matter less, if at all.
func (t *traits) refreshIn() (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	routes := t.routes.all()
	if !t.ruleRemoved && !t.segments.stale && (!t.routeRemoved || routes.plain()) {
		return 0, false
	}
	return max(rereadPause, time.Until(t.reread)), true
}

// refresh reads it again.
func (t *traits) refresh() error {
	return errors.Join(t.readRoutes(), t.readRules(), t.readSegments())
}

func (t *traits) readRules() error {
	t.mu.Lock()
	all := t.rules.all()
	t.rules.added, t.ruleRemoved = needs{}, false
	t.mu.Unlock()
	read, err := needsOfRules()
	if err != nil {
		read.add(all)
		read.key |= datapath.RouteByPorts
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rules.read = read
	return missing(err)
}

func (t *traits) readLinks() error {
	t.mu.Lock()
	t.link, t.linkMTU = "", 0
	t.mu.Unlock()
	why, err := diversions(t.entrances())
	settings, e := readSettings()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.links, t.settings = why, settings
	return errors.Join(err, e)
}

// readNode returns why the node's global settings make the stack forward all
// packets, if they do.
func (t *traits) readNode() (why string, err error) {
	hash, err := sysctl("fib_multipath_hash_policy")
	if errors.Is(err, os.ErrNotExist) {
		hash, err = 0, nil
	}
	t.mu.Lock()
	t.hash, t.policies = hash, false
	settings, routes := t.settings, t.routes.all()
	t.mu.Unlock()
	entrances := t.entrances()
	forwards, e := sysctl("conf/all/forwarding")
	proxied, e2 := proxies(entrances)
	ipsec, e3 := hasPolicies()
	if err = errors.Join(err, e, e2, e3); err != nil {
		return "", err
	}
	switch {
	case forwards == 0:
		return "net.ipv6.conf.all.forwarding is 0", nil
	case ipsec:
		return ipsecDecides, nil
	case proxied:
		return "net.ipv6.conf.all.proxy_ndp is set, and there are proxied neighbours at an interface with forwarding: fast", nil
	}
	for index, e := range entrances {
		if settings.disabled[index] { // packets that arrive there must go to the stack
			return "an interface with forwarding: fast has disable_ipv6", nil
		}
		if why := settings.isClosed(routes); why != "" && e.InTC {
			return why, nil
		}
	}
	return "", nil
}

// missing is an error, except when the data changed during the read.
func missing(err error) error {
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil
	}
	return err
}

// sending removes the interfaces that only the stack may send to.
func (t *traits) sending(list []model.IfIndex) []model.IfIndex {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(list, t.settings.closed)
}

func sysctl(name string) (int, error) {
	b, err := os.ReadFile("/proc/sys/net/ipv6/" + name)
	if err != nil {
		return 0, fmt.Errorf("read a setting: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}
