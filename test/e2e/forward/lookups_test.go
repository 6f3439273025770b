// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/e2e"
)

// custom is a router's configuration, and whether its packets are forwarded fast.
type custom struct {
	name     string
	commands []string // of ip -6, in both routers
	sysctls  []string // likewise; undone with the value after the second =
	fast     bool
	undo     []string
}

const (
	toFirst  = "route add 2001:db8:a::/48 via 2001:db8:11::2"
	toSecond = "route add 2001:db8:a::/48 via 2001:db8:12::2 table 100"
)

// someTrials varies everything that rules and routes match on.
func (w *twins) someTrials() (out []trial) {
	for i := range 24 {
		source := fmt.Sprintf("2001:db8:5:%d::1", i%3)
		destination := fmt.Sprintf("2001:db8:a:%d::%d", i%2, 1+i%5)
		length := []int{100, 1280, 1290, 1291, 1300, 1301, 1350, 1351, 1500}[i%9]
		out = append(out, w.newTrial(source, destination, []byte{0, 0x10, 0x20}[i%3], []byte{17, 6}[i%2],
			datagram(uint16(3000+i), uint16(500*i), length)))
	}
	return out
}

// inverse is what undoes commands of ip, the last one first.
func inverse(commands []string) (out []string) {
	for _, c := range commands {
		switch words := strings.Fields(c); {
		case words[1] != "add" || words[0] == "xfrm":
		case words[0] == "nexthop":
			out = append([]string{"nexthop del " + strings.Join(words[2:4], " ")}, out...)
		case words[0] == "route":
			out = append([]string{"route del " + strings.Join(key(words[2:]), " ")}, out...)
		default:
			out = append([]string{words[0] + " del " + strings.Join(words[2:], " ")}, out...)
		}
	}
	return out
}

// key returns the words that identify a route: type, prefix, source prefix, table
// and metric.
func key(words []string) (out []string) {
	for i, word := range words {
		switch {
		case i == 0, i == 1 && !strings.ContainsAny(words[0], ":") && words[0] != "default":
			out = append(out, word)
		case word == "from", word == "table", word == "metric":
			out = append(out, word, words[i+1])
		}
	}
	return out
}

func (w *twins) set(t *testing.T, setting string) {
	t.Helper()
	e2e.Must(t, w.plain, "sysctl", "-qw", setting)
	e2e.Must(t, w.fast, "sysctl", "-qw", setting)
}

// looked is after how long an agent, which looks at settings once a second, has
// done so.
const looked = 1300 * time.Millisecond

// holdTo compares the routers in one configuration.
func (w *twins) holdTo(t *testing.T, c custom) {
	w.both(t, c.commands...)
	for _, s := range c.sysctls {
		w.set(t, s[:strings.LastIndex(s, "=")])
	}
	defer func() {
		for _, s := range c.sysctls {
			w.set(t, s[:strings.Index(s, "=")]+s[strings.LastIndex(s, "="):])
		}
		w.try(t, append(c.undo, inverse(c.commands)...))
	}()
	if len(c.sysctls) > 0 {
		time.Sleep(looked)
	}
	if c.fast { // after a previous configuration, the agent may have to look, too
		e2e.Await(t, "forwarding past the stack", looked+3*time.Second, func() bool { return !w.byStack(t) })
	}
	trials := w.someTrials()
	_, n := w.compare(t, trials)
	for end := time.Now().Add(looked); !c.fast && n > 0 && time.Now().Before(end); { // a busy agent hears of a change late
		_, n = w.compare(t, trials)
	}
	if c.fast != (n >= len(trials)/6) || !c.fast && n > 0 {
		t.Errorf(
			"%d of %d packets went fast, want fast: %v; left to the stack: %v",
			n,
			len(trials),
			c.fast,
			e2e.ForwardsOf(t, w.lab, "fast").ToStack,
		)
	}
}
