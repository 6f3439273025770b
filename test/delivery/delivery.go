// SPDX-License-Identifier: Apache-2.0

// Package delivery says in which order, and on which CPUs, the numbered packets of a flow
// arrive, and which are lost.
package delivery

import (
	"math/rand/v2"
	"slices"
)

// Packet is a packet that arrives at a node, and on which CPU.
type Packet struct {
	Number uint32
	CPU    int
	Ends   bool // a FIN, possibly of an earlier connection with the same ports
}

// Packets numbers packets, loses some, and lets the others overtake each other
// by at most depth. It never loses the first or the last one, because losses
// beyond them are unknown.
func Packets(r *rand.Rand, first uint32, count, cpus, depth int, loss float64) (list []Packet, lost []uint32) {
	cpu, sticky := 0, r.Float64()
	type placed struct {
		Packet
		place int
	}
	var order []placed
	for i := range count {
		number := first + uint32(i)
		if i > depth && i < count-depth-1 && r.Float64() < loss {
			lost = append(lost, number)
			continue
		}
		if r.Float64() > sticky {
			cpu = r.IntN(cpus)
		}
		at := i
		if i > depth && i < count-depth-1 {
			at += r.IntN(depth + 1)
		}
		order = append(order, placed{Packet{number, cpu, r.IntN(40) == 0}, at})
	}
	slices.SortStableFunc(order, func(a, b placed) int { return a.place - b.place })
	for _, p := range order {
		list = append(list, p.Packet)
	}
	return list, lost
}
