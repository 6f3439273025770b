// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/kernelclock"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// numberUnit is how many nanoseconds of TAI a number of a new profile stands for. A node
// that starts again without its maps so begins beyond the numbers that it has given,
// unless there were more than 62 million packets in each second.
const numberUnit = 16

// clockStep is by how much the clock must have been set forward before numbers follow it.
// The clock of the time since the boot is slewed like TAI, so they differ by steps alone.
const clockStep = int64(time.Second)

// proving is the proofs of a generation.
type proving struct {
	profiles []uint64 // of the namespaces, in their order; 0: no proof
	inserts  bool     // some encapsulation has a proof
}

func compileProving(cfg model.NodeConfig) (x proving) {
	x.profiles = make([]uint64, len(cfg.Namespaces))
	for i, ns := range cfg.Namespaces {
		if ns.Proof != nil && ns.Proof.Key != nil {
			x.profiles[i] = slotName(ns.Proof.Key.Profile)
		}
	}
	for _, e := range cfg.Encapsulations {
		for _, o := range e.Options {
			x.inserts = x.inserts || o.Proof != nil
		}
	}
	return x
}

// slotName names a profile in the map; 0 is a free slot, and profiles are below 2^61.
func slotName(profile uint64) uint64 { return profile | 1<<63 }

func (x proving) any() bool {
	for _, profile := range x.profiles {
		if profile != 0 {
			return true
		}
	}
	return false
}

// constants sets the read-only data of programs.
func (x proving) constants(node *abiNodeConfig) {
	node.HasProofs, node.InsertsProofs = boolean(x.any()), boolean(x.inserts)
}

// compileProof fills in what the programs need of a namespace's proof, but for its slot.
func compileProof(proof *model.Proof, out *abiIoamNamespace) {
	if proof == nil || proof.Key == nil {
		return
	}
	out.ProofFactor, out.ProofSummand = proof.Key.Terms()
	out.Proof = uint8(abiProofRolePROOF_UPDATES)
	if proof.Key.Verifies() {
		out.Proof, out.ProofSecret = uint8(abiProofRolePROOF_VERIFIES), proof.Key.Secret()
		out.ProofDrops = boolean(proof.DropRejected)
	}
}

// appendProof appends one option, and lists what differs per packet.
func appendProof(header []byte, o model.ProofOption, p *abiPatch) []byte {
	header = append(header, uint8(ioam.OptionIOAM), 2+ioam.ProofLen, 0, uint8(ioam.IOAMProofOfTransit))
	p.Kind, p.Proof = uint8(abiOptionKindKIND_POT), uint16(len(header))
	return ioam.ProofOfTransit{Namespace: o.Namespace}.Append(header)
}

// assignProofs finds the slot of each profile, so that its numbers continue, or takes
// one that neither this generation nor the running one uses. There are enough for both.
func (g *generation) assignProofs(proofs *ebpf.Map, running *generation) error {
	if !g.proving.any() {
		return nil
	}
	slots, err := readSlots(proofs)
	if err != nil {
		return err
	}
	used := map[uint64]bool{0: false}
	for _, of := range []*generation{g, running} {
		if of == nil {
			continue
		}
		for _, profile := range of.proving.profiles {
			used[profile] = profile != 0
		}
	}
	for i, profile := range g.proving.profiles {
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
		g.namespaces[i].ProofSlot = slot
	}
	return nil
}

// readSlots reads which profile has each slot, 0 for none.
func readSlots(proofs *ebpf.Map) ([]uint64, error) {
	slots := make([]uint64, proofs.MaxEntries())
	var entry abiProof
	for slot := range slots {
		if err := proofs.Lookup(uint32(slot), &entry); err != nil {
			return nil, fmt.Errorf("read map %s: %w", mapProofs, err)
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
		return 0, errors.New("no slot left for the numbers of a proof of transit; remove pot from some namespaces")
	}
	return uint32(free), nil
}

// readClocks reads TAI, and by how much it is ahead of the time since the boot, in
// nanoseconds. An agent in another time namespace compares both.
func readClocks() (now, ahead int64, err error) {
	var tai unix.Timespec
	if err = unix.ClockGettime(unix.CLOCK_TAI, &tai); err != nil {
		return 0, 0, fmt.Errorf("read the clock: %w", err)
	}
	boot, err := kernelclock.Boot()
	return tai.Nano(), tai.Nano() - int64(boot), err
}

// beginProof gives a slot that no program uses to a profile.
func beginProof(proofs *ebpf.Map, slot uint32, profile uint64) error {
	now, ahead, err := readClocks()
	if err != nil {
		return err
	}
	entry := abiProof{Profile: profile, Next: uint64(now) / numberUnit, Ahead: ahead}
	if err := proofs.Put(slot, entry); err != nil {
		return fmt.Errorf("fill map %s: %w", mapProofs, err)
	}
	return nil
}

// FollowClock lets the numbers of proofs begin again at the time if the clock was set
// forward since they began: after a boot with a clock that is behind, verifying nodes take
// them for old ones. It reports for how many profiles.
func (d *Datapath) FollowClock() (raised int, err error) {
	now, ahead, err := readClocks()
	if err != nil {
		return 0, err
	}
	if !d.applying.TryLock() { // a change may give a profile a slot; the next call looks again
		return 0, nil
	}
	defer d.applying.Unlock()
	step := ahead - d.clockAhead
	if d.tables.maps[mapProofs] == nil || d.clockAhead != 0 && -clockStep < step && step < clockStep {
		return 0, nil
	}
	raised, err = followClock(d.tables.maps[mapProofs], now, ahead)
	if err == nil { // else the next call tries again
		d.clockAhead = ahead
	}
	return raised, err
}

// followClock does so in memory that programs share, word by word. A number that a program
// takes meanwhile is below those that follow.
func followClock(proofs *ebpf.Map, now, ahead int64) (raised int, err error) {
	const next, began, size = 8, 16, int64(unsafe.Sizeof(abiProof{})) // offsets of Next and Ahead
	memory, err := proofs.Memory()
	if err != nil {
		return 0, fmt.Errorf("map the numbers of proofs: %w", err)
	}
	write := func(at int64, word uint64) {
		if err == nil {
			_, err = memory.WriteAt(binary.NativeEndian.AppendUint64(nil, word), at)
		}
	}
	for at := int64(0); err == nil && at < size*int64(proofs.MaxEntries()); at += size {
		var entry [24]byte
		if _, err := memory.ReadAt(entry[:], at); err != nil {
			return raised, fmt.Errorf("read map %s: %w", mapProofs, err)
		}
		word := func(at int) uint64 { return binary.NativeEndian.Uint64(entry[at:]) }
		if word(0) == 0 || ahead-int64(word(began)) < clockStep {
			continue
		}
		if first := uint64(now) / numberUnit; word(next) < first {
			write(at+next, first)
			raised++
		}
		write(at+began, uint64(ahead))
	}
	if err != nil {
		return raised, fmt.Errorf("fill map %s: %w", mapProofs, err)
	}
	return raised, nil
}
