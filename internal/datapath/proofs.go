// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
)

// numberUnit is how many nanoseconds of UTC a number stands for. Numbers are below the time
// unless there are more than 62 million packets in each second, so a node that starts again
// without its maps begins beyond the numbers that it has given.
const numberUnit = int64(bpf.ABIProofBoundPROOF_UNIT)

// numberWindow is how many numbers a verifying node's words hold.
const numberWindow = uint64(bpf.ABIProofBoundPROOF_WORDS) << bpf.ABIProofBoundPROOF_WORD_BITS

// assignProofs finds the slot of each profile, so that its numbers continue, or takes
// one that neither this generation nor the running one uses. There are enough for both.
func assignProofs(g *compile.Generation, proofs *ebpf.Map, running *compile.Generation) error {
	if !g.Proofs.Any() {
		return nil
	}
	slots, err := readSlots(proofs)
	if err != nil {
		return err
	}
	used := map[uint64]bool{0: false}
	for _, of := range []*compile.Generation{g, running} {
		if of == nil {
			continue
		}
		for _, profile := range of.Proofs.Profiles {
			used[profile] = profile != 0
		}
	}
	for i, profile := range g.Proofs.Profiles {
		if profile == 0 {
			continue
		}
		slot, err := slotFor(slots, profile, used)
		if err != nil {
			return err
		}
		if slots[slot] != profile {
			if err := beginProof(proofs, slot, profile); err != nil {
				return err
			}
			slots[slot] = profile
		}
		g.Namespaces[i].ProofSlot = slot
	}
	return nil
}

// readSlots reads which profile has each slot, 0 for none.
func readSlots(proofs *ebpf.Map) ([]uint64, error) {
	slots := make([]uint64, proofs.MaxEntries())
	var entry bpf.ABIProof
	for slot := range slots {
		if err := proofs.Lookup(uint32(slot), &entry); err != nil {
			return nil, fmt.Errorf("read map %s: %w", bpf.MapProofs, err)
		}
		slots[slot] = entry.Profile
	}
	return slots, nil
}

func slotFor(slots []uint64, profile uint64, used map[uint64]bool) (uint32, error) {
	free := -1
	for i, owner := range slots {
		if owner == profile {
			return uint32(i), nil
		}
		// A profile that is not configured any more keeps its slot while there are others.
		if !used[owner] && (free < 0 || owner == 0 && slots[free] != 0) {
			free = i
		}
	}
	if free < 0 {
		return 0, problem.New("no slot left for the numbers of a proof of transit", "remove pot from some namespaces")
	}
	return uint32(free), nil
}

// beginProof gives a slot that no program uses to a profile.
func beginProof(proofs *ebpf.Map, slot uint32, profile uint64) error {
	now := time.Now().UnixNano()
	if err := proofs.Put(slot, bpf.ABIProof{Profile: profile, Next: uint64(now / numberUnit)}); err != nil {
		return fmt.Errorf("fill map %s: %w", bpf.MapProofs, err)
	}
	return nil
}

// FollowClock lets the numbers of proofs follow the time. Without it, verifying nodes would refuse
// proofs as too old for good if the node booted with its clock behind, or if an attacker had forged
// proofs with numbers ahead; and as ahead for as long as the node's clock had been ahead. Call it every
// second.
func (d *Datapath) FollowClock() error {
	now := time.Now().UnixNano()
	if !d.applying.TryLock() { // a change may give a profile a slot; the next call looks again
		return nil
	}
	defer d.applying.Unlock()
	if proofs := d.tables.maps[bpf.MapProofs]; proofs != nil {
		return followClock(proofs, aheadOf(d.running()), now)
	}
	return nil
}

// aheadOf is how far numbers of profiles may be ahead of the clock.
func aheadOf(g *compile.Generation) map[uint64]time.Duration {
	if g == nil {
		return nil
	}
	all := make(map[uint64]time.Duration)
	for i, profile := range g.Proofs.Profiles {
		all[profile] = time.Duration(g.Namespaces[i].ProofAhead)
	}
	return all
}

// followClock does so in memory that programs share, word by word. If a program takes a number while
// the next number is raised, it gets one below all that follow.
func followClock(proofs *ebpf.Map, ahead map[uint64]time.Duration, now int64) error {
	const next, size = 8, int64(unsafe.Sizeof(bpf.ABIProof{})) // offset of Next
	memory, err := proofs.Memory()
	if err != nil {
		return fmt.Errorf("map the numbers of proofs: %w", err)
	}
	for at := int64(0); at < size*int64(proofs.MaxEntries()); at += size {
		var entry [16]byte
		if _, err := memory.ReadAt(entry[:], at); err != nil {
			return fmt.Errorf("read map %s: %w", bpf.MapProofs, err)
		}
		profile, number := binary.NativeEndian.Uint64(entry[:]), binary.NativeEndian.Uint64(entry[next:])
		most, ok := ahead[profile]
		if !ok {
			most = model.DefaultClockDifference
		}
		if follows := followingNumber(number, now, most); profile != 0 && follows != number {
			if _, err := memory.WriteAt(binary.NativeEndian.AppendUint64(nil, follows), at+next); err != nil {
				return fmt.Errorf("fill map %s: %w", bpf.MapProofs, err)
			}
		}
	}
	return nil
}

// followingNumber is the next number, or, if that is before the time or too far ahead of it, the
// first one that is not before the time and has the same place in the window. So packets that are
// still on the way find their places as they were.
func followingNumber(number uint64, now int64, ahead time.Duration) uint64 {
	first, most := uint64(now/numberUnit), uint64((now+int64(ahead))/numberUnit)
	if number >= first && number <= most {
		return number
	}
	return first + (number-first)%numberWindow
}
