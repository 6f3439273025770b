// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
)

// Queues is what packets waited in the queues of the served interfaces, in an interval.
type Queues struct {
	Time       instant.Time `json:"time"` // the end of the interval
	Interval   int64        `json:"interval_ns"`
	Measuring  bool         `json:"measuring"`
	Fault      string       `json:"fault,omitempty"` // why not, or not everywhere
	Interfaces []QueueDelay `json:"interfaces"`      // the longest wait first
}

// QueueDelay is what packets waited in the queue of one interface: from the egress hook until the
// driver had them. Quantiles are at most 2.2% away from the value; they are absent without packets.
type QueueDelay struct {
	Interface string `json:"interface"`
	Packets   uint64 `json:"packets"`         // that were timed
	Untimed   uint64 `json:"untimed"`         // that reached the driver without being timed
	Dropped   uint64 `json:"dropped"`         // by the queue
	Unfit     bool   `json:"unfit,omitempty"` // the queue reads what stands in packets that are timed: none is
	Mean      *int64 `json:"mean_ns,omitempty"`
	P50       *int64 `json:"p50_ns,omitempty"`
	P95       *int64 `json:"p95_ns,omitempty"`
	P99       *int64 `json:"p99_ns,omitempty"`
	Max       *int64 `json:"max_ns,omitempty"`
}

// Queues calls fn for what packets waited in each interval, until the context ends or the agent does.
func (c *Client) Queues(ctx context.Context, interval time.Duration, fn func(Queues) error) error {
	body, err := c.open(ctx, http.MethodGet, "/v1/queues?interval="+interval.String(), nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return eachLine(ctx, body, func(line []byte) error {
		var q Queues
		if err := json.Unmarshal(line, &q); err != nil {
			return err
		}
		return fn(q)
	})
}
