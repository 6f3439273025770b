// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// users checks passwords. bcrypt is slow on purpose, so one is checked at a time, and those that were right are
// remembered: as a hash together with what they were compared with, so that a changed password is checked again.
type users struct {
	mu    sync.Mutex
	right map[[sha256.Size]byte]struct{}

	once sync.Once
	turn chan struct{}
}

// mostRemembered bounds the passwords that are remembered.
const mostRemembered = 1000

// dummyHash returns the hash, of a cost, of a password that no user has.
func dummyHash(cost int) string {
	return fmt.Sprintf("$2y$%02d$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi", cost)
}

// passwords are those of users.
type passwords struct {
	hashes map[string]string // by bcrypt, by name
	cost   int               // the highest of them
}

func (p *passwords) set(name, hash string) {
	p.hashes[name] = hash
	if cost, err := bcrypt.Cost([]byte(hash)); err == nil {
		p.cost = max(p.cost, cost)
	}
}

// costs are those of the comparisons after which a password is refused that was compared with a hash. A comparison
// takes twice as long with each unit of its cost, so together they take as long as one of the highest cost: how long a
// refusal takes tells neither whether there is a user nor which cost the hash has.
func (p *passwords) costs(hash string) (list []int) {
	of, err := bcrypt.Cost([]byte(hash))
	if err != nil {
		return []int{p.cost} // it was not compared at all
	}
	for cost := of; cost < p.cost; cost++ {
		list = append(list, cost)
	}
	return list
}

func (u *users) check(ctx context.Context, of *passwords, name, password string) bool {
	hash, known := of.hashes[name]
	if !known {
		hash = dummyHash(of.cost)
	}
	h := sha256.New()
	for _, part := range []string{name, hash, password} {
		sum := sha256.Sum256([]byte(part))
		h.Write(sum[:])
	}
	key := [sha256.Size]byte(h.Sum(nil))
	u.mu.Lock()
	_, seen := u.right[key]
	u.mu.Unlock()
	if seen {
		return known
	}
	u.once.Do(func() { u.turn = make(chan struct{}, 1) })
	select {
	case u.turn <- struct{}{}:
		defer func() { <-u.turn }()
	case <-ctx.Done():
		return false
	}
	if bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) != nil || !known {
		for _, cost := range of.costs(hash) {
			_ = bcrypt.CompareHashAndPassword([]byte(dummyHash(cost)), []byte(password)) // for the time that it takes
		}
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.right == nil || len(u.right) >= mostRemembered {
		u.right = map[[sha256.Size]byte]struct{}{}
	}
	u.right[key] = struct{}{}
	return true
}
