// SPDX-License-Identifier: Apache-2.0

package rings

import (
	"time"

	"github.com/waymark-net/waymark/internal/model"
)

// Record is one removed header, or one of which a copy is to be returned, with what
// identifies its packet.
type Record struct {
	Time      time.Time // UTC
	Interface model.IfIndex
	Outcome   model.Outcome // inline_removed, tunnel_decapsulated or loopback_received, also for a copy to return
	Length    int           // bytes of the IPv6 packet that goes on
	Packet    []byte        // its first bytes, at most 80, from the IPv6 header; of a copy, or one to return, that header alone
	Header    []byte        // the Hop-by-Hop header, with this node's data unless the packet is a copy
}

// Postcard is what a program reports about one packet with a Direct Export (RFC
// 9326 §3.1.2).
type Postcard struct {
	model.Postcard
	Time time.Time // UTC
}
