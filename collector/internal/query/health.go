// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"fmt"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/problem"
)

// Health is the state of the collector.
type Health struct {
	OK       bool              `json:"ok"`
	Warnings []string          `json:"warnings"`
	Problems []Problem         `json:"problems"`
	Store    StoreHealth       `json:"store"`
	Sink     map[string]uint64 `json:"records"`
	Counts   map[string]uint64 `json:"collector"`
	Waiting  int               `json:"waiting"`
	Began    instant.Time      `json:"began"`
	Now      instant.Time      `json:"now"`

	Exporters []Exporter      `json:"exporters"`
	Lost      []LostRecords   `json:"lost"`
	Buffers   []ReceiveBuffer `json:"receive_buffers"`
}

// Problem is what is wrong with a collector, and its cure.
type Problem struct {
	Text string `json:"text"`
	Cure string `json:"cure,omitempty"`
}

// warn adds a warning.
func (h *Health) warn(text, cure string) {
	h.Warnings = append(h.Warnings, problem.New(text, cure).Error())
	h.Problems = append(h.Problems, Problem{text, cure})
}

// ReceiveBuffer is what the sockets of an endpoint over UDP have.
type ReceiveBuffer struct {
	Endpoint string `json:"endpoint"`
	Sockets  int    `json:"sockets"`
	Bytes    int    `json:"bytes"`
}

// StoreHealth is the state of the store.
type StoreHealth struct {
	Directory string       `json:"directory"`
	Files     int          `json:"files"`
	Aside     int          `json:"files_lost"`
	Packed    int          `json:"files_packed"`
	Packets   uint64       `json:"packets"`
	Records   uint64       `json:"records"`
	Bytes     int64        `json:"bytes"`
	Free      uint64       `json:"disk_free"`
	Age       int64        `json:"kept_ns"`
	First     instant.Time `json:"first"`
	Fault     string       `json:"fault,omitempty"`
	Cure      string       `json:"cure,omitempty"`
	Saved     int64        `json:"packing_saved"`
	Unpacked  string       `json:"packing_fault,omitempty"`
}

// HealthFor answers somebody. A role with a scope learns whether all is well and whether something is missing in its
// answers, and not what others have there, nor where the files are.
func (q *Queries) HealthFor(ctx context.Context) *Health {
	h := q.Health()
	if !Confined(ctx) {
		return h
	}
	short := &Health{
		OK: h.OK, Warnings: []string{}, Problems: []Problem{},
		Sink: map[string]uint64{}, Counts: map[string]uint64{}, Exporters: []Exporter{}, Lost: []LostRecords{},
		Buffers: []ReceiveBuffer{},
		Store:   StoreHealth{First: h.Store.First, Age: h.Store.Age, Aside: h.Store.Aside}, Began: h.Began, Now: h.Now,
	}
	if !h.OK || len(h.Warnings) > 0 {
		short.warn("records are missing, or nothing is written", "ask the operator of the collector")
	}
	return short
}

// Health answers.
func (q *Queries) Health() *Health {
	h := &Health{
		Warnings: []string{}, Problems: []Problem{}, Sink: map[string]uint64{}, Counts: map[string]uint64{}, Exporters: []Exporter{},
		Lost: []LostRecords{}, Buffers: []ReceiveBuffer{},
	}
	now := time.Now()
	h.Now = instant.Of(now)
	h.Store.Directory = q.Store.Directory()
	h.Store.Fault, h.Store.Cure = q.Store.Fault()
	h.Store.Free, _ = q.Store.Free()
	for i, e := range q.Store.Files() {
		if i == 0 {
			h.Store.First, h.Store.Age = instant.Of(e.Opened), max(now.Sub(e.Opened), 0).Nanoseconds()
		}
		if e.State == store.SetAside || e.State == store.Unreadable {
			h.Store.Aside++
			h.warn("the file "+e.Name+" cannot be read: "+e.Reason+"; what it had is missing in answers", "")
			continue
		}
		h.Store.Files++
		if e.Packed {
			h.Store.Packed++
		}
		h.Store.Packets, h.Store.Records, h.Store.Bytes = h.Store.Packets+e.Packets, h.Store.Records+e.Records, h.Store.Bytes+e.Bytes
	}
	if h.Store.Fault != "" {
		h.warn("nothing is written: "+h.Store.Fault, h.Store.Cure)
	}
	packing := q.Store.Packing()
	h.Store.Saved, h.Store.Unpacked = packing.Saved, packing.Fault
	if packing.Fault != "" {
		h.warn("files are not packed, and take more of the disk: "+packing.Fault, "")
	}
	if q.Live != nil {
		live := q.Live()
		for _, c := range live.Collector.Counts {
			h.Counts[c.Name] = c.Value
		}
		h.Waiting = live.Collector.Waiting
		s := live.Sink
		h.Sink = map[string]uint64{"offered": s.Offered, "written": s.Written, "dropped": s.Dropped, "lost": s.Lost, "waiting": s.Waiting()}
		h.Began = instant.Of(live.Began)
		h.exporters(live.Exporters, live.Ignored, now)
		h.losses(&live)
		if n := q.Store.Refused(); n > 0 {
			h.Lost = append(h.Lost, LostRecords{"store", "refused", "records that the database refused for what they have", n})
		}
		if n := h.Counts["names_refused"]; n > 0 {
			h.warn(fmt.Sprintf("%d times, the name of a node or an interface found no room: exporters have sent more names than are "+
				"kept, and those beyond have none", n), "look who sends them, or let another collector have some of the exporters")
		}
		for _, b := range live.Buffers {
			h.Buffers = append(h.Buffers, ReceiveBuffer{b.Endpoint.String(), b.Sockets, b.Octets})
		}
		if s.Missed() > 0 {
			h.warn("records were lost before they were written", "see records")
		}
	}
	h.OK = h.Store.Fault == "" && h.Store.Aside == 0
	return h
}
