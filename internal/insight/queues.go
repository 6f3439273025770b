// SPDX-License-Identifier: Apache-2.0

package insight

import "github.com/waymark-net/waymark/internal/instant"

// Queues is what packets waited in the queues of this node.
type Queues struct {
	Since      instant.Time     `json:"since"`      // at most about a minute before the report
	Interfaces []InterfaceQueue `json:"interfaces"` // the longest wait first
}

// InterfaceQueue is the queue of one interface.
type InterfaceQueue struct {
	Interface string     `json:"interface"`
	Waits     *Quantiles `json:"waits"` // null: no packet was timed
	Dropped   uint64     `json:"dropped"`
	Unfit     bool       `json:"unfit,omitempty"` // the queue reads what stands in packets that are timed: none is
}
