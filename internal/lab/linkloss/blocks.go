// SPDX-License-Identifier: Apache-2.0

package linkloss

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
)

// Colours is how packets are marked in the traffic class (RFC 9341): with Even in blocks of
// an even number, and Odd in the others. A block's number is the time of UTC through Length.
type Colours struct {
	Length    time.Duration
	Mask      byte
	Even, Odd byte
}

// Block is what a rule chose from, and lost, in a block.
type Block struct {
	Rule   int // its number, from 1
	Number uint64
	Counts
}

// CountBlocks has each rule of an interface count by block, too, from now on. A packet is of
// the block that has its colour and is nearest to the time of the loss.
func CountBlocks(device string, c Colours) error {
	if c.Length <= 0 || c.Mask == 0 || c.Even&^c.Mask != 0 || c.Odd&^c.Mask != 0 || c.Even == c.Odd {
		return fmt.Errorf("%+v: blocks need a length, and colours two different values of the mask's bits", c)
	}
	f, err := find(device)
	if err != nil {
		return err
	}
	if f == nil {
		return problem.New(fmt.Sprintf("%s has no rule", device), "add one first")
	}
	defer f.close()
	offset, err := taiOffset()
	if err == nil {
		err = f.colourings.Put(
			uint32(0),
			&lossColouring{Length: uint64(c.Length), Offset: uint64(offset), Mask: c.Mask, Even: c.Even, Odd: c.Odd},
		)
	}
	if err != nil {
		return fmt.Errorf("count the blocks of %s: %w", device, err)
	}
	return nil
}

// taiOffset is TAI - UTC: that of the kernel, which the program reads TAI from.
func taiOffset() (time.Duration, error) {
	var tai, utc unix.Timespec
	if err := errors.Join(unix.ClockGettime(unix.CLOCK_TAI, &tai), unix.ClockGettime(unix.CLOCK_REALTIME, &utc)); err != nil {
		return 0, err
	}
	return time.Duration(tai.Nano() - utc.Nano()).Round(time.Second), nil
}

// Blocks reads them in any order. Unplaced are the packets that are in no block, because they
// had no colour, or because there was no room for their block.
func Blocks(device string) (list []Block, unplaced uint64, err error) {
	f, err := find(device)
	if f == nil || err != nil {
		return nil, 0, err
	}
	defer f.close()
	var colouring lossColouring
	if err := f.colourings.Lookup(uint32(0), &colouring); err != nil {
		return nil, 0, fmt.Errorf("read how packets of %s are marked: %w", device, err)
	}
	var key lossRuleBlock
	var c lossCounts
	entries := f.blocks.Iterate()
	for entries.Next(&key, &c) {
		list = append(list, Block{Rule: int(key.Rule) + 1, Number: key.Block, Counts: c.exported()})
	}
	if err := entries.Err(); err != nil {
		return nil, 0, fmt.Errorf("read the blocks of %s: %w", device, err)
	}
	return list, colouring.Unplaced, nil
}

// forget removes the blocks of a rule that was.
func (f *filter) forget(rule uint32) error {
	var key lossRuleBlock
	var c lossCounts
	var old []lossRuleBlock
	entries := f.blocks.Iterate()
	for entries.Next(&key, &c) {
		if key.Rule == rule {
			old = append(old, key)
		}
	}
	err := entries.Err()
	for i := range old {
		err = errors.Join(err, f.blocks.Delete(&old[i]))
	}
	return err
}
