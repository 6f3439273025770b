// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Timestamps of every format, read in every format, give a remark if and only if they
// are far from the times of capture.
func TestTimes(t *testing.T) {
	const tai = 37 * time.Second
	captured := time.Date(2026, 11, 21, 17, 0, 0, 500e6, time.UTC)
	written := func(c record.Clock, ago ...time.Duration) (nodes []ioam.NodeData) {
		for _, d := range ago {
			at := captured.Add(-d)
			seconds, fraction := c.Format.Fields(at.UnixNano()+int64(c.TAIOffset), int64(c.TAIOffset))
			b := binary.BigEndian.AppendUint32(nil, seconds)
			nodes = append(nodes, ioam.NodeData{Type: 0x300000, Bytes: binary.BigEndian.AppendUint32(b, fraction)})
		}
		return nodes
	}
	posix, ptp, ntp := record.Clock{
		Format:    ioam.TimestampPOSIX,
		TAIOffset: tai,
	}, record.Clock{
		Format:    ioam.TimestampPTP,
		TAIOffset: tai,
	}, record.Clock{
		Format:    ioam.TimestampNTP,
		TAIOffset: tai,
	}
	utc := record.Clock{Format: ioam.TimestampPTP} // TAI is not known
	const ms, year = time.Millisecond, 365 * 24 * time.Hour
	far := func(as, of string) string {
		return "read as " + as + ", " + of + " timestamps differ by more than 10s from the time of capture"
	}
	for _, tt := range []struct {
		name  string
		as    record.Clock
		nodes []ioam.NodeData
		want  string
	}{
		{"posix", posix, written(posix, ms, 2*ms), ""},
		{"ptp", ptp, written(ptp, ms, 2*ms), ""},
		{"ntp", ntp, written(ntp, ms, 2*ms), ""},
		{"posix as ptp", ptp, written(posix, ms, 2*ms), far("ptp", "2 of 2") + "; with --timestamp-format posix they agree"},
		{"posix as ntp", ntp, written(posix, ms, 2*ms), far("ntp", "2 of 2") + "; with --timestamp-format posix they agree"},
		{"ptp as posix", posix, written(ptp, ms, 2*ms), far("posix", "2 of 2") + "; with --timestamp-format ptp they agree"},
		{"ntp as posix", posix, written(ntp, ms, 2*ms), far("posix", "2 of 2") + "; with --timestamp-format ntp they agree"},
		{"ptp that is UTC", ptp, written(utc, ms, 2*ms), far("ptp", "2 of 2") + "; with --timestamp-format ptp --tai-offset 0s they agree"},
		{"ptp that is not UTC", utc, written(ptp, ms), far("ptp", "1 of 1") + "; with --timestamp-format ptp --tai-offset 37s they agree"},
		{"clocks a little apart", posix, written(posix, 9*time.Second, -9*time.Second), ""},
		{"one wrong clock", posix, written(posix, ms, 20*year), ""},
		{"most clocks wrong", posix, written(posix, ms, 20*year, 20*year), far("posix", "2 of 3") + ", and so do most in every other format: a clock of the domain or of the capture is wrong"},
		{"not available", posix, []ioam.NodeData{{Type: 0x300000, Bytes: []byte{255, 255, 255, 255, 255, 255, 255, 255}}}, ""},
		{"no timestamps", posix, []ioam.NodeData{{Type: 0x800000, Bytes: []byte{1, 2, 3, 4}}}, ""},
	} {
		times := newTimes(tt.as)
		times.add(captured, tt.nodes)
		if got := times.Remark(); got != tt.want {
			t.Errorf("%s: %q\nwant %q", tt.name, got, tt.want)
		}
		untimed := newTimes(tt.as)
		untimed.add(time.Time{}, tt.nodes)
		if got := untimed.Remark(); got != "" {
			t.Errorf("%s, in a capture without times: %q", tt.name, got)
		}
	}
}
