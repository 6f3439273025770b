// SPDX-License-Identifier: Apache-2.0

package linkloss

import (
	"slices"
	"testing"
	"time"
)

// inClass gives a frame a traffic class.
func inClass(b []byte, class byte) []byte {
	b = slices.Clone(b)
	b[14], b[15] = 0x60|class>>4, class<<4
	return b
}

// A packet is counted in the block that has its colour and is nearest to now.
func TestBlocks(t *testing.T) {
	const even, odd, length = 0x04, 0x0c, 100 * time.Hour // now is in the middle of a block, or near one of its ends
	p := load(t)
	p.set(t, 1, Rule{Burst: 1, Every: 3})
	p.set(t, 2, Rule{Burst: 1, Every: 1})
	colours := lossColouring{Length: uint64(length), Mask: 0x0c, Even: even, Odd: odd}
	offset, err := taiOffset()
	if err != nil {
		t.Fatal(err)
	}
	now := uint64(time.Now().UnixNano())
	number := now / uint64(length)
	// The clock of the program is moved to a quarter, and to three quarters, of the block.
	type of struct{ rule, block uint64 }
	want := make(map[of]Counts)
	send := func(quarter uint64, class byte, block uint64) {
		t.Helper()
		colours.Offset = uint64(offset) + now - number*uint64(length) - quarter*uint64(length)/4
		before := lossColouring{}
		if err := p.colourings.Lookup(uint32(0), &before); err != nil {
			t.Fatal(err)
		}
		colours.Unplaced = before.Unplaced
		if err := p.colourings.Put(uint32(0), &colours); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			p.loses(t, inClass(frame(), class|0xb3), skb{GSOSegs: 2, GSOSize: 40})
			first := want[of{0, block}]
			first.Frames, first.Packets = first.Frames+1, first.Packets+2
			if i == 2 { // the second rule does not see it
				first.LostFrames, first.LostPackets = first.LostFrames+1, first.LostPackets+2
			} else {
				second := want[of{1, block}]
				want[of{1, block}] = Counts{second.Frames + 1, second.Packets + 2, second.LostFrames + 1, second.LostPackets + 2}
			}
			want[of{0, block}] = first
		}
	}
	here, other := byte(even), byte(odd)
	if number%2 == 1 {
		here, other = other, here
	}
	send(1, here, number)
	send(3, here, number)
	send(1, other, number-1)
	send(3, other, number+1)
	p.loses(t, inClass(frame(), 0), skb{})
	p.loses(t, inClass(frame(), 0x08), skb{})

	var key lossRuleBlock
	var c lossCounts
	for entries := p.blocks.Iterate(); entries.Next(&key, &c); {
		if k := (of{uint64(key.Rule), key.Block}); want[k] != c.exported() {
			t.Errorf("rule %d, block %d (now %d): %+v, want %+v", key.Rule, key.Block, number, c, want[k])
		} else {
			delete(want, k)
		}
	}
	if len(want) > 0 {
		t.Errorf("not counted: %v", want)
	}
	// two frames, of which both rules see each
	if err := p.colourings.Lookup(uint32(0), &colours); err != nil || colours.Unplaced != 4 {
		t.Errorf("%d packets are in no block, want 4 (%v)", colours.Unplaced, err)
	}
	if err := p.forget(0); err != nil {
		t.Fatal(err)
	}
	left := 0
	for entries := p.blocks.Iterate(); entries.Next(&key, &c); left++ {
		if key.Rule != 1 {
			t.Errorf("a block of rule %d is left", key.Rule)
		}
	}
	if left != 3 {
		t.Errorf("%d blocks are left of the other rule, want 3", left)
	}
}

// Blocks are counted where there are rules, and as they say.
func TestCountBlocks(t *testing.T) {
	device := makeDevice(t)
	right := Colours{Length: time.Second, Mask: 0x0c, Even: 0x04, Odd: 0x0c}
	if err := CountBlocks(device, right); err == nil {
		t.Error("an interface without a rule counts blocks")
	}
	if list, unplaced, err := Blocks(device); len(list) > 0 || unplaced > 0 || err != nil {
		t.Errorf("an interface without a rule has the blocks %v, %d, %v", list, unplaced, err)
	}
	if _, err := Add(device, Rule{Burst: 1, Every: 1}); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []Colours{{}, {Length: 1}, {Length: time.Second, Mask: 0x0c, Even: 4, Odd: 4},
		{Length: time.Second, Mask: 4, Even: 4, Odd: 8}, {Mask: 0x0c, Even: 4, Odd: 8}} {
		if CountBlocks(device, wrong) == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
	if err := CountBlocks(device, right); err != nil {
		t.Fatal(err)
	}
	f, err := find(device)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if err := f.blocks.Put(&lossRuleBlock{Block: 7, Rule: 0}, &lossCounts{Frames: 5, Packets: 6, LostFrames: 1, LostPackets: 2}); err != nil {
		t.Fatal(err)
	}
	if list, unplaced, err := Blocks(device); err != nil || unplaced > 0 || !slices.Equal(list, []Block{{1, 7, Counts{5, 6, 1, 2}}}) {
		t.Errorf("%v, %d, %v", list, unplaced, err)
	}
}
