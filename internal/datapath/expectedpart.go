// SPDX-License-Identifier: Apache-2.0

package datapath

// expectedPart is the Sequence Numbers of one entry.
type expectedPart struct {
	numbered bool
	latest   uint32
	again    uint32
	numbers  []uint32 // since they last started again
	strays   int
	anew     bool
}

// add records a number and says whether it is late.
func (p *expectedPart) add(number uint32) (late bool) {
	ahead := int32(number - p.latest)
	switch {
	case !p.numbered || ahead > 0:
		p.latest, p.numbers = number, append(p.numbers, number)
	case ahead == 0: // a duplicate
	case ahead >= -1000:
		late, p.numbers = true, append(p.numbers, number)
	case number == p.again: // numbers started again, with the previous stray
		p.latest, p.numbers, p.anew, p.strays = number, []uint32{number - 1, number}, true, 0
	default:
		late, p.again, p.strays = true, number+1, p.strays+1
	}
	p.numbered = true
	return late
}

// span is the first and the last number, allowing for wrapping at 2^32.
func span(numbers []uint32) (lowest, highest uint32) {
	lowest, highest = numbers[0], numbers[0]
	for _, n := range numbers {
		if int32(n-highest) > 0 {
			highest = n
		} else if int32(n-lowest) < 0 {
			lowest = n
		}
	}
	return lowest, highest
}
