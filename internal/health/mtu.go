// SPDX-License-Identifier: Apache-2.0

package health

import "fmt"

// minimumMTU is the MTU that every IPv6 link supports (RFC 8200 §5).
const minimumMTU = 1280

// mtuRoom is what an encapsulation leaves of the MTU of its interface.
type mtuRoom struct {
	mtu     int
	largest int // the largest packets that arrive for it, as far as MTUs tell
	left    int // for a packet that gets its header
}

// room is false where the interface's MTU is not known.
func room(n Node, e Encapsulation) (r mtuRoom, known bool) {
	for _, i := range n.Interfaces {
		if i.Name == e.Interface {
			r.mtu = i.MTU
		} else {
			r.largest = max(r.largest, i.MTU)
		}
	}
	if r.largest == 0 {
		r.largest = r.mtu // a host: its own packets can be as large as the link allows
	}
	r.left = r.mtu - e.Insertion
	return r, r.mtu != 0
}

func checkMTU(n Node, e Encapsulation) (ws []Warning) {
	r, known := room(n, e)
	if !known {
		return nil
	}
	if e.PathMTU != 0 {
		w := New(PathMTULowered, e.Interface,
			fmt.Sprintf("encapsulation %s adds %d bytes, the path to %s carries %d: packets over %d bytes leave without a trace "+
				"(encap_skipped_mtu); larger ones are tried, and lost if too large, every ten minutes, next at %s; this warning stays until then",
				e.Name, e.Insertion, e.Destination, e.PathMTU, e.PathMTU-e.Insertion, e.PathUntil.UTC().Format("2006-01-02T15:04:05Z")),
			fmt.Sprintf("give every link from %s to %s an MTU of %d, or let sources send at most %d bytes", e.Interface, e.Destination,
				r.largest+e.Insertion, e.PathMTU-e.Insertion))
		w.Degree = r.largest + e.Insertion - e.PathMTU
		ws = append(ws, w)
	}
	text := fmt.Sprintf("encapsulation %s adds %d bytes, the MTU of %s is %d: packets over %d bytes leave without a trace (encap_skipped_mtu)",
		e.Name, e.Insertion, e.Interface, r.mtu, r.left)
	return append(ws, r.check(e, text)...)
}

// plannedMTU is the same of an encapsulation that is not in force yet.
func plannedMTU(n Node, e Encapsulation) []Warning {
	r, known := room(n, e)
	if !known {
		return nil
	}
	ws := r.check(e, fmt.Sprintf("in mode full, encapsulation %s would add %d bytes, the MTU of %s is %d: packets over %d bytes would leave "+
		"without a trace (encap_skipped_mtu)", e.Name, e.Insertion, e.Interface, r.mtu, r.left))
	for i := range ws {
		ws[i].Severity = Info // nothing is lost yet
	}
	return ws
}

// check compares what is left with the packets that come.
func (r mtuRoom) check(e Encapsulation, text string) []Warning {
	code, cure := MTUTooSmall, fmt.Sprintf("ip link set %s mtu %d along the whole path, or make the sources send at most %d bytes",
		e.Interface, r.largest+e.Insertion, r.left)
	switch {
	case r.left < minimumMTU:
		code = MTUBelowMinimum
		cure = fmt.Sprintf("ip link set %s mtu %d along the whole path, or insert less", e.Interface, minimumMTU+e.Insertion)
	case r.left >= r.largest:
		return nil
	}
	w := New(code, e.Interface, text, cure)
	w.Degree = r.largest - r.left
	return []Warning{w}
}

// PlannedMTU lists the encapsulations of a configuration that is not in force whose headers would not
// fit the MTUs of interfaces, the worst first.
func PlannedMTU(interfaces []Interface, planned []Encapsulation) (ws []Warning) {
	for _, e := range planned {
		ws = append(ws, plannedMTU(Node{Interfaces: interfaces}, e)...)
	}
	Sort(ws)
	return ws
}
