// SPDX-License-Identifier: Apache-2.0

package browsertest

// visits are all screens, and the parts of them that are opened: who sees what.
func (w *wanted) visits() []visit {
	return []visit{
		{Path: "/?" + period, Check: true, CSV: true, Paint: true, PNG: []string{".edge.slowest stroke", ".box .name fill"}, judge: w.paths},
		{
			Path: "/?" + secondHalf + "&compare=previous&destination_port=443", Check: true, CSV: true,
			PNG: []string{".edge.slowest stroke", ".box .name fill"}, judge: w.compared,
		},
		{Path: "/changes?" + period, Check: true, CSV: true, PNG: []string{":root --one"}, judge: w.changes},
		{Path: "/changes?" + period, Press: []string{"j", "Enter"}, Check: true, judge: w.openedChange},
		{Path: "/segments?order=held&" + period, Check: true, CSV: true, PNG: []string{".spark polyline stroke"}, judge: w.segments},
		{
			Path: "/segments?order=held&" + period, Press: []string{"j", "Enter"}, Check: true,
			PNG: []string{":root --two"}, judge: w.openedSegment,
		},
		{Path: "/segments?baseline=5m&" + secondHalf, Check: true, CSV: true, judge: w.baseline},
		{Path: "/grid?" + period, Check: true, CSV: true, PNG: []string{".matrix td[style] background-color", ".matrix td.lost background-color"}, judge: w.grid},
		{Path: "/grid?pair=1+9&" + period, Check: true, PNG: []string{":root --one", ":root --two"}, judge: w.openedPair},
		{Path: "/?from_node_id=1&to_node_id=9&way=one+%E2%86%92+nine&" + period, CSV: true, judge: w.betweenNodes},
		{Path: "/packets?from_node_id=10&limit=10000&" + period, CSV: true, judge: w.begunAt},
		{Path: "/events?" + period, Press: []string{"j", "Enter"}, Check: true, CSV: true, judge: events},
		{
			Path: "/loss?" + period + "&row=5+segment+1+2", Check: true, CSV: true,
			PNG: []string{".course .lost:not(.ground) fill", ".course .zero:not(.ground) fill"}, judge: w.losses,
		},
		{Path: "/packets?state=lost&limit=10000&" + period, Check: true, CSV: true, judge: w.packets},
		{
			Path: "/packets?flow_id=2&sequence=1000&" + period, Check: true,
			PNG: []string{".waterfall .held fill", ".waterfall .name fill"}, judge: w.waterfall,
		},
		{
			Path: "/live?rate=1000", Check: true, CSV: true, Await: "40 packets in the last minute; 3 of them lost",
			PNG: []string{":root --bad"}, judge: w.live,
		},
		{Path: "/health", Check: true, CSV: true, judge: w.health},
		{Path: "/segments?from=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z", Check: true, judge: nothing},
		{Path: "/?" + hourBefore, CSV: true, judge: unknown("Lost")},
		{Path: "/segments?" + hourBefore, CSV: true, judge: unknown("Lost after")},
		{Path: "/grid?" + hourBefore, Check: true, CSV: true, PNG: []string{".matrix td.empty color"}, judge: unknown("Lost")},
		{Path: "/health", Press: []string{"3"}, judge: keys},
	}
}
