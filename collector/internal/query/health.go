// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/instant"
)

// Health is the state of the collector.
type Health struct {
	OK       bool              `json:"ok" doc:"Records are written, and no file is missing."`
	Warnings []string          `json:"warnings" doc:"What is wrong, each in a sentence with what to do."`
	Store    StoreHealth       `json:"store" doc:"The store."`
	Sink     map[string]uint64 `json:"records" doc:"Records that the store was offered, by what became of them."`
	Counts   map[string]uint64 `json:"collector" doc:"Counters of what was received and joined, as the metrics have them."`
	Waiting  int               `json:"waiting" doc:"Packets that wait for postcards."`
	Began    instant.Time      `json:"began" doc:"Since when the collector runs; what it counts, it counts since then."`
	Now      instant.Time      `json:"now" doc:"The collector's clock."`

	Exporters []Exporter    `json:"exporters" doc:"Who sends, by address and domain."`
	Lost      []LostRecords `json:"lost" doc:"What was lost on its way into the store, by cause. Records that exporters say they sent and that did not come are sequence_gap."`
}

// StoreHealth is the state of the store.
type StoreHealth struct {
	Directory string       `json:"directory" doc:"Where the files are."`
	Files     int          `json:"files" doc:"Files that can be read."`
	Aside     int          `json:"files_lost" doc:"Files that cannot be read."`
	Packed    int          `json:"files_packed" doc:"Files that were packed after their time was over, so that they take less of the disk."`
	Packets   uint64       `json:"packets" doc:"Packets in all files."`
	Records   uint64       `json:"records" doc:"Other records in all files."`
	Bytes     int64        `json:"bytes" doc:"Bytes of all files."`
	Free      uint64       `json:"disk_free" doc:"Bytes that the disk has left."`
	Age       int64        `json:"kept_ns" doc:"How long ago the oldest file was begun."`
	First     instant.Time `json:"first" doc:"When the oldest file was begun."`
	Fault     string       `json:"fault,omitempty" doc:"Why nothing is written; absent when everything is."`
	Saved     int64        `json:"packing_saved" doc:"Bytes that packing has saved since the collector began."`
	Unpacked  string       `json:"packing_fault,omitempty" doc:"Why files could not be packed lately; they are as they were, and it is tried again."`
}

// HealthFor answers somebody. A role with a scope learns whether all is well and whether something is missing in its
// answers, and not what others have there, nor where the files are.
func (q *Queries) HealthFor(ctx context.Context) *Health {
	h := q.Health()
	if !Confined(ctx) {
		return h
	}
	short := &Health{
		OK: h.OK, Warnings: []string{}, Sink: map[string]uint64{}, Counts: map[string]uint64{}, Exporters: []Exporter{}, Lost: []LostRecords{},
		Store: StoreHealth{First: h.Store.First, Age: h.Store.Age, Aside: h.Store.Aside}, Began: h.Began, Now: h.Now,
	}
	if !h.OK || len(h.Warnings) > 0 {
		short.Warnings = append(short.Warnings, "records are missing, or nothing is written; ask the operator of the collector")
	}
	return short
}

// Health answers.
func (q *Queries) Health() *Health {
	h := &Health{Warnings: []string{}, Sink: map[string]uint64{}, Counts: map[string]uint64{}, Exporters: []Exporter{}, Lost: []LostRecords{}}
	now := time.Now()
	h.Now = instant.Of(now)
	h.Store.Directory, h.Store.Fault = q.Store.Directory(), q.Store.Fault()
	h.Store.Free, _ = q.Store.Free()
	for i, e := range q.Store.Files() {
		if i == 0 {
			h.Store.First, h.Store.Age = instant.Of(e.Opened), max(now.Sub(e.Opened), 0).Nanoseconds()
		}
		if e.State == store.SetAside || e.State == store.Unreadable {
			h.Store.Aside++
			h.Warnings = append(h.Warnings, "the file "+e.Name+" cannot be read: "+e.Reason+"; what it had is missing in answers")
			continue
		}
		h.Store.Files++
		if e.Packed {
			h.Store.Packed++
		}
		h.Store.Packets, h.Store.Records, h.Store.Bytes = h.Store.Packets+e.Packets, h.Store.Records+e.Records, h.Store.Bytes+e.Bytes
	}
	if h.Store.Fault != "" {
		h.Warnings = append(h.Warnings, "nothing is written: "+h.Store.Fault)
	}
	packing := q.Store.Packing()
	h.Store.Saved, h.Store.Unpacked = packing.Saved, packing.Fault
	if packing.Fault != "" {
		h.Warnings = append(h.Warnings, "files are not packed, and take more of the disk: "+packing.Fault)
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
		if s.Missed() > 0 {
			h.Warnings = append(h.Warnings, "records were lost before they were written; see records")
		}
	}
	h.OK = h.Store.Fault == "" && h.Store.Aside == 0
	return h
}
