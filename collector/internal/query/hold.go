// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"sync"
)

// heldEach is how many answers may be in memory for each question that may be worked on: those that are being written
// to their clients, which may be slow, besides those that are being made.
const heldEach = 4

// room is what answers take, of all users together and of each.
type room struct {
	all chan struct{}

	lock sync.Mutex
	of   map[string]*part // of users with answers, or who wait
}

// part is one user's.
type part struct {
	places chan struct{}
	asking int // who have a place of it, or wait for one
}

func newRoom(places int) *room {
	return &room{all: make(chan struct{}, places), of: map[string]*part{}}
}

// enter is a user's part: half of the room.
func (r *room) enter(user string) *part {
	r.lock.Lock()
	defer r.lock.Unlock()
	p := r.of[user]
	if p == nil {
		p = &part{places: make(chan struct{}, max(cap(r.all)/2, 1))}
		r.of[user] = p
	}
	p.asking++
	return p
}

func (r *room) leave(user string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.of[user].asking--; r.of[user].asking == 0 {
		delete(r.of, user)
	}
}

// Hold takes room for a user's answer, before its question is asked and until it has been written and release is called.
// One user has at most half of the room, so that slow clients do not keep out other users; "", who was not asked for a
// name, may have all of it.
func (q *Queries) Hold(ctx context.Context, user string) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, q.Time)
	defer cancel()
	leave := func() {}
	if user != "" {
		p := q.held.enter(user)
		select {
		case p.places <- struct{}{}:
		case <-ctx.Done():
			q.held.leave(user)
			return nil, ErrBusy
		}
		leave = func() {
			<-p.places
			q.held.leave(user)
		}
	}
	select {
	case q.held.all <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, ErrBusy
	}
	return func() {
		<-q.held.all
		leave()
	}, nil
}

// Held is how many answers have room.
func (q *Queries) Held() int { return len(q.held.all) }
