// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/test/e2e"
)

// restartOnTheWay ends the agent of a node on the way while packets are lost before it:
// killed, its programs count on, and the next agent answers for the blocks of the time
// between, unless that was longer than a block; removed with its programs, the blocks in which
// it did not count are uncertain. All others have exactly the loss of their packets.
func restartOnTheWay(t *testing.T, l *lab.Lab, killed bool) {
	t.Helper()
	again := func() { restart(t, l, "south") }
	if killed {
		again = func() { e2e.Restart(t, l, "south", syscall.SIGKILL) }
	}
	r := observe(t, l)
	r.awaitExact(t, south)
	const every = 10
	lose(t, l, "ingress", "eth2", linkloss.Rule{Burst: 1, Every: every, LastSID: ofFlows.LastSID})
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		datagrams(t, l, 16_000, toSouth)
	}()
	time.Sleep(3 * time.Second)
	o := during(again)
	<-done
	r.awaitAfter(t, time.Now(), south)
	gap := o.to.Sub(o.from)
	t.Logf("there was no agent for %v", gap)
	most := 3 + int(gap/time.Second)
	if killed {
		if most = 0; gap > 800*time.Millisecond {
			most = 1 + int(gap/time.Second)
		}
	}
	checkRestart(t, r, part{"south", 0, 1}, began, every, most)
	sent, lost, _ := r.sum(t, south, began) // the ends have not been restarted
	if injected := lossesByLink(t, l)["ingress eth2"][0]; sent != injected.Packets || lost != injected.LostPackets || sent != 16_000 {
		t.Errorf("%d sent, %d lost; the link had %d and lost %d", sent, lost, injected.Packets, injected.LostPackets)
	}
}

// checkRestart checks that not more than so many blocks in a row are uncertain, and that all
// others lost one packet of each so many.
func checkRestart(t *testing.T, r *results, p part, began time.Time, every uint64, most int) {
	t.Helper()
	var uncertain []uint64
	exact := 0
	for _, each := range r.lossesOf(p) {
		switch {
		case each.Start.Add(time.Second).Before(began) || each.Sent.Value == 0:
		case each.Verdict == loss.Uncertain:
			uncertain = append(uncertain, each.Block.Value)
			if why := each.ToReasons; why&^(loss.Missing|loss.Restarted|loss.OtherPath) != 0 || each.FromReasons != 0 || each.Lost.Valid {
				t.Errorf("block %d: %v, %v, %+v lost", each.Block.Value, each.FromReasons, why, each.Lost)
			}
		default:
			exact++
			if least := each.Sent.Value / every; each.Lost.Value < least || each.Lost.Value > least+1 {
				t.Errorf("block %d: %d of %d lost", each.Block.Value, each.Lost.Value, each.Sent.Value)
			}
		}
	}
	if exact < 2 || len(uncertain) > most || len(uncertain) > 0 && uncertain[len(uncertain)-1]-uncertain[0] >= uint64(len(uncertain)) {
		t.Errorf("%d blocks are exact, %v are uncertain, want at most %d", exact, uncertain, most)
	}
	t.Logf("%d blocks are exact, %d uncertain", exact, len(uncertain))
}
