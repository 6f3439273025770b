// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// A refusal takes as much work whether there is a user or not, and whichever cost its hash has.
func TestRefusalsTakeAsLong(t *testing.T) {
	t.Parallel()
	p := &passwords{hashes: map[string]string{}}
	for name, cost := range map[string]int{"cheap": 5, "usual": 7, "dear": 9} {
		hash, err := bcrypt.GenerateFromPassword([]byte(name), cost)
		if err != nil {
			t.Fatal(err)
		}
		p.set(name, string(hash))
	}
	for name, hash := range map[string]string{"cheap": p.hashes["cheap"], "usual": p.hashes["usual"], "dear": p.hashes["dear"],
		"nobody": dummyHash(p.cost)} {
		cost, err := bcrypt.Cost([]byte(hash))
		work := 1 << cost
		for _, c := range p.costs(hash) {
			if of, err := bcrypt.Cost([]byte(dummyHash(c))); of != c || err != nil {
				t.Errorf("a hash of cost %d has %d, %v", c, of, err)
			}
			work += 1 << c
		}
		if work != 1<<9 || err != nil {
			t.Errorf("%s: %d, want %d; %v", name, work, 1<<9, err)
		}
	}
	var u users
	for name, want := range map[string]bool{"cheap": true, "dear": true, "nobody": false} {
		if is := u.check(t.Context(), p, name, name); is != want {
			t.Errorf("%s: %v", name, is)
		}
		if u.check(t.Context(), p, name, "another") {
			t.Errorf("%s has another password, too", name)
		}
	}
}
