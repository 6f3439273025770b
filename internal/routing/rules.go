// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/netlinkattr"
)

// needs are the packet fields that rules use. Rules with any other attribute
// are left to the stack.
type needs struct {
	key    datapath.RouteKey
	why    string // why the stack forwards all packets, in an operator's words
	varies bool   // not all packets to a destination are routed by the tables local and main
}

func (n *needs) add(other needs) {
	n.key |= other.key
	n.varies = n.varies || other.varies
	if n.why == "" {
		n.why = other.why
	}
}

// byStack is a need that no program can meet.
func byStack(format string, values ...any) needs {
	return needs{key: datapath.RouteByStack, why: fmt.Sprintf(format, values...), varies: true}
}

// The attributes of a policy rule (linux/fib_rules.h).
const (
	ruleDestination         = 1
	ruleSource              = 2
	ruleArrival             = 3
	ruleGoto                = 4
	rulePriority            = 6
	ruleMark                = 10
	ruleTunnel              = 12
	ruleSuppressGroup       = 13
	ruleSuppressLength      = 14
	ruleTable               = 15
	ruleMask                = 16
	ruleDeparture           = 17
	rulePad                 = 18
	ruleVRF                 = 19
	ruleUser                = 20
	ruleProtocol            = 21
	ruleNextHeader          = 22
	ruleSourcePorts         = 23
	ruleDestinationPorts    = 24
	ruleClass               = 25
	ruleLabel               = 26
	ruleLabelMask           = 27
	ruleSourcePortMask      = 28
	ruleDestinationPortMask = 29
	ruleClassMask           = 30
)

// From a rule's header: its action and its flags.
const (
	ruleToTable     = 1
	ruleJump        = 2
	ruleNothing     = 3
	ruleBlackhole   = 6
	ruleUnreachable = 7
	ruleProhibit    = 8

	// permanent, invert, unresolved, detached from interfaces, find a source
	ruleFlags   = 0x1f | 0x10000
	ruleInverts = 2
)

// selects reports whether an attribute of a rule may select among the packets to one
// destination.
func selects(kind uint16) bool {
	switch kind {
	case ruleDestination, rulePriority, ruleTable, rulePad, ruleProtocol, ruleSuppressGroup, ruleSuppressLength:
		return false
	}
	return true
}

// needsOfRule are the needs of one rule.
func needsOfRule(rule []byte) (n needs) {
	if len(rule) < unix.SizeofRtMsg {
		return byStack("a rule cannot be read")
	}
	var priority, flags uint32 = 0, binary.NativeEndian.Uint32(rule[8:])
	var odd string
	table := uint32(rule[4])
	whole := netlinkattr.Each(rule[unix.SizeofRtMsg:], func(kind uint16, value []byte) {
		if kind == rulePriority && len(value) == 4 {
			priority = binary.NativeEndian.Uint32(value)
			return
		}
		if kind == ruleTable && len(value) == 4 {
			table = binary.NativeEndian.Uint32(value)
		}
		n.varies = n.varies || selects(kind)
		key, why := needOfSelector(kind, value)
		if n.key |= key; odd == "" {
			odd = why
		}
	})
	header := nl.DeserializeRtMsg(rule)
	if header.Tos != 0 {
		n.key |= datapath.RouteByFlow
	}
	if table != unix.RT_TABLE_MAIN && (table != unix.RT_TABLE_LOCAL || header.Dst_len > 0) ||
		header.Type != ruleToTable || flags&ruleInverts != 0 || header.Tos != 0 {
		n.varies = true
	}
	switch action := header.Type; {
	case !whole:
		odd = "cannot be read"
	case flags&^ruleFlags != 0:
		odd = fmt.Sprintf("has flags that are not known here (%#x)", flags)
	case action != ruleToTable && action != ruleJump && action != ruleNothing &&
		action != ruleBlackhole && action != ruleUnreachable && action != ruleProhibit:
		odd = fmt.Sprintf("does what is not known here (%d)", action)
	}
	if odd != "" {
		n.add(byStack("rule %d %s", priority, odd))
	}
	return n
}

// needOfSelector is the need of one attribute of a rule, or the reason why a
// program cannot meet it.
func needOfSelector(kind uint16, value []byte) (datapath.RouteKey, string) {
	switch kind {
	case ruleDestination, ruleArrival, ruleGoto, ruleTable, ruleDeparture, rulePad, ruleProtocol:
	case ruleVRF: // matches only packets that arrive in a VRF, which go to the stack
	case ruleSource, ruleClass, ruleClassMask, ruleLabel, ruleLabelMask:
		return datapath.RouteByFlow, ""
	case ruleNextHeader, ruleSourcePorts, ruleDestinationPorts, ruleSourcePortMask, ruleDestinationPortMask:
		return datapath.RouteByPorts, ""
	case ruleMark, ruleMask:
		if !isAll(value, 0) { // netfilter sets marks, which the data plane does not see
			return 0, "chooses by a mark (fwmark)"
		}
	case ruleSuppressLength, ruleSuppressGroup:
		if !isAll(value, 0xff) {
			return 0, "suppresses routes (suppress_prefixlength, suppress_ifgroup), which the kernel does for the stack only"
		}
	case ruleTunnel:
		return 0, "chooses by a tunnel's number (tun_id)"
	case ruleUser:
		return 0, "chooses by a user (uidrange)"
	default:
		return 0, fmt.Sprintf("chooses by what is not known here (attribute %d)", kind)
	}
	return datapath.RouteByDestination, ""
}

func isAll(value []byte, want byte) bool {
	for _, b := range value {
		if b != want {
			return false
		}
	}
	return true
}

// needsOfRules are the needs of all rules together.
func needsOfRules() (n needs, err error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETRULE, unix.NLM_F_DUMP)
	request.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET6}})
	err = request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWRULE, func(m []byte) bool {
		n.add(needsOfRule(m))
		return true
	})
	if err != nil {
		return n, fmt.Errorf("read the rules: %w", err)
	}
	return n, nil
}
