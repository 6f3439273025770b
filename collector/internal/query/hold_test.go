// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"errors"
	"testing"
	"time"
)

// One user's answers leave half of the room to others; a place that is given back can be taken again.
func TestUsersShareRoomForAnswers(t *testing.T) {
	q := &Queries{Time: time.Minute, AtOnce: 1}
	q.Begin()
	now, cancel := context.WithCancel(t.Context())
	cancel()
	taken := map[string][]func(){}
	for _, step := range []struct {
		user string
		busy bool
	}{{"alice", false}, {"alice", false}, {"alice", true}, {"", false}, {"bob", false}, {"bob", true}, {"", true}} {
		ctx := t.Context()
		if step.busy {
			ctx = now
		}
		release, err := q.Hold(ctx, step.user)
		if step.busy != errors.Is(err, ErrBusy) {
			t.Errorf("%+v: %v", step, err)
		}
		if err == nil {
			taken[step.user] = append(taken[step.user], release)
		}
	}
	waits := make(chan error)
	go func() { // for a place of the same user
		release, err := q.Hold(t.Context(), "alice")
		if err == nil {
			defer release()
		}
		waits <- err
	}()
	taken["alice"][0]()
	if err := <-waits; err != nil {
		t.Error(err)
	}
	taken["alice"] = taken["alice"][1:]
	for _, list := range taken {
		for _, release := range list {
			release()
		}
	}
	if q.Held() != 0 || len(q.held.of) != 0 {
		t.Errorf("%d answers have room, and %d users a part of it", q.Held(), len(q.held.of))
	}
}

// Without a name, all room can be taken.
func TestNobodyTakesAllRoomForAnswers(t *testing.T) {
	q := &Queries{Time: time.Minute, AtOnce: 2}
	q.Begin()
	for range 2 * heldEach {
		if _, err := q.Hold(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	if q.Held() != 2*heldEach {
		t.Errorf("%d answers have room", q.Held())
	}
}
