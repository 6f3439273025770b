// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/e2e"
)

// newChooser makes the same choices for the same seed and number.
func newChooser(seed uint64, number int) *chooser {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(number))
	return &chooser{Rand: rand.New(rand.NewChaCha8(key))}
}

// numberOf is an environment variable's whole number, or otherwise if it is not
// set.
func numberOf(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// Whatever rules, routes, next hops, neighbours, links and settings there are,
// packets leave a router as they would leave the kernel. WAYMARK_WAYS is how many
// configurations are tried, WAYMARK_SEED repeats a run. It runs alone: routers
// that hear of changes late leave packets to the stack.
func TestForwardRandomWays(t *testing.T) {
	e2e.NeedRedirection(t)
	count := int(numberOf(t, "WAYMARK_WAYS", randomConfigurations))
	seed := numberOf(t, "WAYMARK_SEED", rand.Uint64())
	t.Logf("WAYMARK_WAYS=%d WAYMARK_SEED=%d", count, seed)
	w := raiseTwins(t, "xdp")
	packets, fast, usual, byStack := 0, 0, 0, 0
	for done := 0; done < count; done++ {
		c := newChooser(seed, done)
		if done%ofOneWorld == 0 {
			settings, undo := c.world(done)
			for _, s := range settings {
				w.set(t, s)
			}
			if len(settings) > 0 {
				time.Sleep(looked)
			}
			t.Logf("configuration %d: settings %v", done, settings)
			w.settings = undo
		}
		n, differ := w.tryRandom(t, c, done)
		packets, fast = packets+trialsOfEach, fast+n
		if n == 0 {
			byStack++
		}
		if done < ofOneWorld {
			usual += n
		}
		if differ > 0 {
			t.Fatalf("configuration %d of WAYMARK_SEED=%d", done, seed)
		}
		if done%ofOneWorld == ofOneWorld-1 {
			for _, s := range w.settings {
				w.set(t, s)
			}
			if len(w.settings) > 0 {
				time.Sleep(looked)
			}
			w.settings = nil
		}
	}
	t.Logf("%d of %d packets went fast; the stack forwarded all in %d of %d configurations", fast, packets, byStack, count)
	if usual < min(count, ofOneWorld)*trialsOfEach/5 {
		t.Errorf("only %d of %d packets went fast with usual settings", usual, min(count, ofOneWorld)*trialsOfEach)
	}
}

// tryRandom compares the routers in one random configuration.
func (w *twins) tryRandom(t *testing.T, c *chooser, number int) (fast, differ int) {
	t.Helper()
	commands, undo := c.configuration()
	defer func() {
		if t.Failed() {
			t.Logf("configuration %d:\nip -6 %s", number, strings.Join(commands, "\nip -6 "))
		}
	}()
	w.own = c.own
	w.try(t, commands) // the kernel refuses some, the same in both
	differ, fast = w.compare(t, c.trials(w))
	w.own = twinAddress(0)
	w.try(t, undo)
	for begun := time.Now(); w.byStack(t) && time.Since(begun) < 300*time.Millisecond; time.Sleep(5 * time.Millisecond) {
	}
	return fast, differ
}
