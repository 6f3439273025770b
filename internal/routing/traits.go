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

// traits is what a packet's way depends on, as far as was seen. Messages add to
// what was read, until it is read anew.
type traits struct {
	entrances func() map[model.IfIndex]datapath.Entrance // the interfaces that forward fast

	mu    sync.Mutex
	known bool // everything was read once

	rules    seen[needs, *needs]
	routes   seen[shape, *shape]
	reread   time.Time // routes are not read again before
	lost     bool      // messages were lost, so routes must be read
	shrunk   bool      // a route went that may have been the last of its shape
	unruled  bool      // a rule went
	links    string    // why a link makes the stack forward all, when all were read
	link     string    // the same, of one that came since
	policies bool      // of IPsec came since all were read
	leaving  int       // looks since an interface went that forwards fast

	settings settings
	hash     int    // net.ipv6.fib_multipath_hash_policy
	node     string // why the node's settings make the stack forward all
}

// seen is what was read of something, and what messages added since.
type seen[T any, P interface {
	*T
	add(T)
}] struct{ read, added T }

func (s *seen[T, P]) all() T {
	all := s.read
	P(&all).add(s.added)
	return all
}

// note looks at one message for what changes the way routes are chosen, and
// tells whether it may change where an IPv6 packet goes.
func (t *traits) note(kind, flags uint16, data []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch kind {
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		return len(data) > 0 && data[0] == unix.AF_INET6
	case unix.RTM_DELLINK:
		// its program may go on in another network namespace, with the
		// numbers of interfaces there, until the agent has taken it off
		if _, fast := t.entrances()[indexOfLink(data)]; fast && data[0] == unix.AF_UNSPEC {
			t.leaving = looksAfterLeaving
		}
	case unix.RTM_NEWLINK:
		if len(data) == 0 || data[0] != unix.AF_UNSPEC {
			break // of a bridge's port, or of IPv6 alone
		}
		if l, whole := parseLink(data); !whole {
			t.link = "a link cannot be read"
		} else if why := l.diverts(t.entrances()); why != "" {
			t.link = why
		}
	case unix.RTM_NEWRULE:
		t.rules.added.add(needsOfRule(data))
	case unix.RTM_NEWNEXTHOP:
		t.routes.added.add(shapeOfNextHop(data)) // a group may be behind any route that names it
	case unix.RTM_NEWROUTE:
		t.shrunk = t.shrunk || flags&unix.NLM_F_REPLACE != 0
		s := shapeOfRoute(data)
		s.spread = s.spread || flags&unix.NLM_F_APPEND != 0
		t.routes.added.add(s)
	case unix.RTM_DELROUTE, unix.RTM_DELNEXTHOP:
		t.shrunk = true
	case unix.RTM_DELRULE:
		t.unruled = true
	}
	return true
}

// noteLoss is told when messages were lost.
func (t *traits) noteLoss() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = true
}

// notePolicy is told of a policy of IPsec.
func (t *traits) notePolicy() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.policies = true
}

const (
	// looksAfterLeaving is for how many looks an interface that forwarded
	// fast, and went, makes the stack forward all.
	looksAfterLeaving = 2
	// What may need less than before is read again soon, but routes may be
	// many: not before this many times as long as reading took have passed.
	rereadPause  = 100 * time.Millisecond
	rereadFactor = 50
)

// routing is what the data plane must look at beside the destination, and why
// that is the stack alone, if it is.
func (t *traits) routing() (datapath.Routing, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rules, routes := t.rules.all(), t.routes.all()
	if why := t.whyStack(rules, routes); why != "" {
		return datapath.Routing{Key: datapath.RouteByStack}, why
	}
	key := rules.key
	if t.lost {
		key = datapath.RouteByPorts // until all has been read
	}
	if routes.spread {
		key |= datapath.RouteByFlow // source, destination, flow label
	}
	return datapath.Routing{Key: key, MTU: t.mtu(routes)}, ""
}

func (t *traits) whyStack(rules needs, routes shape) string {
	switch {
	case !t.known:
		return "the kernel's routes have not been read yet"
	case t.leaving > 0:
		return "an interface with forwarding: fast has just gone"
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
		return fmt.Sprintf("routes have several next hops, and net.ipv6.fib_multipath_hash_policy is %d: the stack hashes what a program does not see", t.hash)
	case routes.spread && (rules.key == datapath.RouteByPorts || t.lost):
		return "routes have several next hops, and rules choose by ports"
	}
	return ""
}

const ipsecDecides = "IPsec has policies for what is forwarded"

// mtu is the size up to which the kernel's lookup says the truth about an MTU:
// it does not regard a route's without a lock, and one with a lock it regards
// even where the link's is smaller.
func (t *traits) mtu(routes shape) uint16 {
	mtu := routes.mtu
	if smallest := t.settings.smallestMTU; routes.locked > smallest {
		mtu = least(mtu, smallest)
	}
	if mtu == 0 {
		return datapath.AnyMTU
	}
	return uint16(min(mtu, uint32(datapath.AnyMTU)))
}

// read looks at everything that no message may have told.
func (t *traits) read() error {
	err := errors.Join(t.readRoutes(), t.readRules(), t.readLinks())
	node, e := t.readNode()
	if err = errors.Join(err, e); err != nil {
		node = "the kernel's routes cannot be read: " + err.Error()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.node, t.known = node, true
	t.leaving = max(t.leaving-1, 0)
	return err
}

// readRoutes reads them when messages were lost, or when what they need may have
// become less.
func (t *traits) readRoutes() error {
	t.mu.Lock()
	all := t.routes.all()
	due := !t.known || t.lost || t.shrunk && !all.plain() && time.Now().After(t.reread)
	if due { // what comes from now on is added to what is read
		t.lost, t.shrunk, t.routes.added = false, false, shape{}
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
		t.lost = true
	}
	t.routes.read = read
	return missing(err)
}

// refreshIn is when to read again what may need less than it did, if at all.
func (t *traits) refreshIn() (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	routes := t.routes.all()
	if !t.unruled && (!t.shrunk || routes.plain()) {
		return 0, false
	}
	return max(rereadPause, time.Until(t.reread)), true
}

// refresh reads it.
func (t *traits) refresh() error { return errors.Join(t.readRoutes(), t.readRules()) }

func (t *traits) readRules() error {
	t.mu.Lock()
	all := t.rules.all()
	t.rules.added, t.unruled = needs{}, false
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
	t.link = ""
	t.mu.Unlock()
	why, err := diversions(t.entrances())
	settings, e := readSettings()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.links, t.settings = why, settings
	return errors.Join(err, e)
}

// readNode says why the settings of the whole node make the stack forward all.
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
		if settings.disabled[index] { // what arrives there must meet the stack
			return "an interface with forwarding: fast has disable_ipv6", nil
		}
		if why := settings.isClosed(routes); why != "" && e.InTC {
			return why, nil
		}
	}
	return "", nil
}

// missing is an error that is more than that something changed while it was read.
func missing(err error) error {
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil
	}
	return err
}

// sending are those of the interfaces that the kernel lets IPv6 out of as a
// program would send it.
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
