// SPDX-License-Identifier: Apache-2.0

package delivery

// Sequence is the Sequence Numbers of one entry.
type Sequence struct {
	numbered bool
	latest   uint32
	again    uint32
	Numbers  []uint32 // since they last started again
	Strays   int
	Anew     bool
}

// Add records a number and says whether it is late.
func (p *Sequence) Add(number uint32) (late bool) {
	ahead := int32(number - p.latest)
	switch {
	case !p.numbered || ahead > 0:
		p.latest, p.Numbers = number, append(p.Numbers, number)
	case ahead == 0: // a duplicate
	case ahead >= -1000:
		late, p.Numbers = true, append(p.Numbers, number)
	case number == p.again: // numbers started again, with the previous stray
		p.latest, p.Numbers, p.Anew, p.Strays = number, []uint32{number - 1, number}, true, 0
	default:
		late, p.again, p.Strays = true, number+1, p.Strays+1
	}
	p.numbered = true
	return late
}

// Span is the first and the last number, allowing for wrapping at 2^32.
func Span(numbers []uint32) (lowest, highest uint32) {
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
