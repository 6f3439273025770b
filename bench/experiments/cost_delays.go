// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// unread begins the names of configurations of nodes whose records have no reader.
const unread = "unread "

// Nodes with histograms of delays, and the same ones without.
const (
	delaysOff   = unread + "delays off"
	delaysOn    = unread + "delays"
	mostStops   = 8
	fewestStops = 2
)

func delayConfigs() map[string]model.NodeConfig {
	configs := make(map[string]model.NodeConfig)
	for name, sample := range map[string]uint32{delaysOff: 0, delaysOn: 1} {
		c := nodeConfig()
		c.Decapsulations = []model.Decapsulation{{TunnelDestination: harness.TunnelEnd}}
		c.Delays = sample
		configs[name] = c
	}
	return configs
}

// passed is a trace with the ids and times of some nodes, each of which a millisecond after the one before.
// The last segment and the path are as long as the time since, so they count as longer delays after a minute.
func passed(nodes int) []byte {
	const idsAndTimes = 0xb00000
	size := nodes * dataSize(idsAndTimes)
	o := traceOption(model.TraceOption{Namespace: namespace, Type: idsAndTimes, Size: size}, nodes)
	now := time.Now()
	for i := range nodes { // the last one first
		at := now.Add(-time.Duration(i) * time.Millisecond)
		node := o[len(o)-size+i*dataSize(idsAndTimes):]
		binary.BigEndian.PutUint32(node, 63<<24|uint32(100+i))
		binary.BigEndian.PutUint32(node[4:], uint32(at.Unix()))
		binary.BigEndian.PutUint32(node[8:], uint32(at.Nanosecond()/1000))
	}
	return o
}

// delayCases measure what histograms add: at a node on the way, whose times are read anyway, the time held; where
// a tunnel ends, a series for each segment, and one for the path. A segment costs a sixth of what the larger trace
// costs more than the smaller one, less the same without histograms.
func delayCases() []costCase {
	inner := harness.IPv6(harness.Source, harness.Destination, harness.NextUDP, harness.UDP(24))
	var cases []costCase
	for _, v := range []struct{ config, with string }{{delaysOff, "without histograms"}, {delaysOn, "with histograms"}} {
		cases = append(
			cases,
			costCase{datapath.HookEgressTC, "with timestamps and delay, type 0xf80000, " + v.with, model.OutcomeTraceFilled, v.config,
				traced(trace(namespace, typeDelay)), harness.ArrivedAt(other), 0},
		)
		for _, hook := range []datapath.Hook{datapath.HookIngressXDP, datapath.HookIngressTC} {
			for _, stops := range []int{fewestStops, mostStops} {
				cases = append(
					cases,
					costCase{hook, fmt.Sprintf("times of %d nodes, no record, %s", stops, v.with), model.OutcomeTunnelDecapsulated, v.config,
						tunnelled(inner, passed(stops)), harness.SKB{}, 0},
				)
			}
		}
	}
	return cases
}

// isHeld reports whether the case is about the time for which a packet was held.
func (c costCase) isHeld() bool { return isUnread(c.config) && c.completes() }

// arriveNow writes the time of arrival into the transit delay field, as the ingress hook does (decision 0002): a
// packet that is held for more than 2.1 s has no delay that counts. The frame may be the plain one.
func arriveNow(frame []byte) error {
	const delayAt = atOption + 12 + 16 // after the option's header, ids and timestamp
	var tai unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_TAI, &tai); err != nil {
		return err
	}
	if frame[harness.AtNextHeader] == harness.NextHBH {
		binary.BigEndian.PutUint32(frame[delayAt:], 1<<31|uint32(tai.Nano()>>2)&0x7ffffffe)
	}
	return nil
}

func isUnread(config string) bool { return strings.HasPrefix(config, unread) }
