// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/metrics"
)

var (
	descWritable = &metrics.Desc{Name: "waymark_store_writable", Help: "1 while records are written, 0 while they are not."}
	descFiles    = &metrics.Desc{Name: "waymark_store_files", Help: "Files of the store that can be read."}
	descMissing  = &metrics.Desc{Name: "waymark_store_files_missing", Help: "Files that cannot be read: what they had is missing in answers."}
	descBytes    = &metrics.Desc{Name: "waymark_store_bytes", Help: "Bytes of all files."}
	descFree     = &metrics.Desc{Name: "waymark_store_disk_free_bytes", Help: "Bytes that the disk has left."}
	descPackets  = &metrics.Desc{Name: "waymark_store_packets", Help: "Packets in all files; it falls when files leave."}
)

// collect adds the metrics of the store.
func (d *Daemon) collect(g *metrics.Gatherer) {
	var files, missing, octets, packets float64
	for _, e := range d.store.Files() {
		if e.State == store.SetAside || e.State == store.Unreadable {
			missing++
			continue
		}
		files, octets, packets = files+1, octets+float64(e.Bytes), packets+float64(e.Packets)
	}
	writable := 1.0
	if d.store.Fault() != "" {
		writable = 0
	}
	free, _ := d.store.Free() // 0 if the disk does not say it
	g.Add(descWritable, writable)
	g.Add(descFiles, files)
	g.Add(descMissing, missing)
	g.Add(descBytes, octets)
	g.Add(descFree, float64(free))
	g.Add(descPackets, packets)
}
