// SPDX-License-Identifier: Apache-2.0

package query

import (
	"maps"
	"slices"
	"time"
)

// stepped are the sums of an answer with a condition, by what they are of: of the whole time, and of each step.
type stepped[K comparable, S any] struct {
	step time.Duration // 0: only of the whole time
	of   map[K]*inSteps[S]
	made int // how many sums there are
}

// inSteps are the sums of one.
type inSteps[S any] struct {
	whole S
	steps map[int64]*S // by their numbers
}

// at are the sums to which something at a time belongs.
func (s *stepped[K, S]) at(of K, at time.Time) []*S {
	one := s.of[of]
	if one == nil {
		one = &inSteps[S]{steps: map[int64]*S{}}
		s.of[of] = one
		s.made++
	}
	if s.step == 0 {
		return []*S{&one.whole}
	}
	number := windowOf(at.UnixNano(), s.step.Nanoseconds())
	if one.steps[number] == nil {
		one.steps[number] = new(S)
		s.made++
	}
	return []*S{&one.whole, one.steps[number]}
}

// numbers are those of the steps, the earliest first.
func (s *inSteps[S]) numbers() []int64 { return slices.Sorted(maps.Keys(s.steps)) }

// firstOf are the first items of a list, as many as were asked for.
func firstOf[T any](a *Answer, list []T, limit int) []T {
	if len(list) <= limit {
		return list
	}
	if a.Cut == nil {
		a.Cut = cutAt(limit)
	}
	return list[:limit]
}

// cutSeries leaves out what an answer has no room for: the latest steps of the last ones of a list.
func cutSeries[T, P any](a *Answer, list []T, of func(*T) *[]P) {
	left := mostPoints
	for i := range list {
		one := of(&list[i])
		if len(*one) > left {
			*one = (*one)[:left]
			a.Cut = cutAt(mostPoints)
		}
		left -= len(*one)
	}
}
