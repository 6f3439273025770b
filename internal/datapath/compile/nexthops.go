// SPDX-License-Identifier: Apache-2.0

package compile

import "github.com/waymark-net/waymark/internal/datapath/bpf"

// defaultNextHops is how many destinations each CPU caches: a mebibyte.
const defaultNextHops = 16384

// nextHopSets is the number of sets for this many next hops.
func nextHopSets(nextHops int) uint32 {
	if nextHops <= 0 {
		nextHops = defaultNextHops
	}
	return bpf.PowerOfTwo(uint(nextHops+nextHopWays-1) / uint(nextHopWays))
}

const nextHopWays = len(bpf.ABINextHopSet{}.Ways)
