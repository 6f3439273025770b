// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"maps"
	"slices"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/metrics"
)

var (
	descWritable = &metrics.Desc{Name: "waymark_store_writable", Help: "1 while records are written, 0 while they are not."}
	descFiles    = &metrics.Desc{Name: "waymark_store_files", Help: "Files of the store that can be read."}
	descMissing  = &metrics.Desc{Name: "waymark_store_files_missing", Help: "Files that cannot be read: what they had is missing in answers."}
	descPacked   = &metrics.Desc{Name: "waymark_store_files_packed", Help: "Files that were packed after their time was over."}
	descPackings = &metrics.Desc{
		Name: "waymark_store_packings_total", Help: "Attempts to pack a file, by what became of them.", Labels: []string{"result"},
	}
	descSaved   = &metrics.Desc{Name: "waymark_store_packing_saved_bytes_total", Help: "Bytes of the disk that packing has saved."}
	descBytes   = &metrics.Desc{Name: "waymark_store_bytes", Help: "Bytes of all files."}
	descFree    = &metrics.Desc{Name: "waymark_store_disk_free_bytes", Help: "Bytes that the disk has left."}
	descRefused = &metrics.Desc{
		Name: "waymark_store_refused_records_total", Help: "Records that the database refused for what they have, and that are not kept.",
	}
	descRemoved = &metrics.Desc{
		Name: "waymark_store_files_removed_total", Labels: []string{"cause"},
		Help: "Files that left, by cause: `age` (store.age), `size` (store.size), or `disk`, which had too little room.",
	}
	descPackets = &metrics.Desc{Name: "waymark_store_packets", Help: "Packets in all files; it falls when files leave."}
)

// collect adds the metrics of the store.
func (d *Daemon) collect(g *metrics.Gatherer) {
	var files, packed, missing, octets, packets float64
	for _, e := range d.store.Files() {
		if e.State == store.SetAside || e.State == store.Unreadable {
			missing++
			continue
		}
		if e.Packed {
			packed++
		}
		files, octets, packets = files+1, octets+float64(e.Bytes), packets+float64(e.Packets)
	}
	writable := 1.0
	if fault, _ := d.store.Fault(); fault != "" {
		writable = 0
	}
	free, _ := d.store.Free() // 0 if the disk does not say it
	g.Add(descWritable, writable)
	g.Add(descFiles, files)
	g.Add(descMissing, missing)
	packing := d.store.Packing()
	g.Add(descPacked, packed)
	g.Add(descPackings, float64(packing.Done), "done")
	g.Add(descPackings, float64(packing.Failed), "failed")
	g.Add(descSaved, float64(max(packing.Saved, 0)))
	removed := d.store.Removed()
	for _, cause := range slices.Sorted(maps.Keys(removed)) {
		g.Add(descRemoved, float64(removed[cause]), cause)
	}
	g.Add(descBytes, octets)
	g.Add(descFree, float64(free))
	g.Add(descPackets, packets)
	g.Add(descRefused, float64(d.store.Refused()))
}
