// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/waymark-net/waymark/ioam"

// Delays are the histograms of delays that a node has counted.
type Delays struct {
	Counted           bool          `json:"counted"`
	Scale             int           `json:"scale"`
	ClockSynchronized *bool         `json:"clock_synchronized"`
	Series            []DelaySeries `json:"series"`
}

// DelaySeries is one histogram since the data plane began.
type DelaySeries struct {
	Kind      string            `json:"kind"`
	Other     bool              `json:"other,omitempty"`
	Ingress   string            `json:"ingress,omitempty"`
	Egress    string            `json:"egress,omitempty"`
	From      *uint64           `json:"from,omitempty"`
	To        *uint64           `json:"to,omitempty"`
	Wide      bool              `json:"wide,omitempty"`
	Namespace *ioam.NamespaceID `json:"namespace,omitempty"`

	Count      uint64        `json:"count"`
	Sum        uint64        `json:"sum_ns"`
	Zero       uint64        `json:"zero"`
	Negative   uint64        `json:"negative"`
	Longer     uint64        `json:"longer"`
	Incomplete uint64        `json:"incomplete"`
	Buckets    []DelayBucket `json:"buckets"`
}

// DelayBucket counts the delays above 2^(Index/16) s and not above 2^((Index+1)/16) s.
type DelayBucket struct {
	Index int    `json:"index"`
	Count uint64 `json:"count"`
}
