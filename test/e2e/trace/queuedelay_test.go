// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// A slow link behind a router is named by that router: packets wait in its queue, and nowhere else.
func TestQueueDelay(t *testing.T) {
	t.Parallel()
	if e2e.TCModes()[0] != "tcx" {
		t.Skip("this kernel has no tcx (needs Linux 6.6)")
	}
	top := e2e.Domain(t, e2e.Modes(e2e.TCModes()[0])[0])
	e2e.Reconfigure(t, top, "athos", "node: {", "node: {queue-delay: true, ")
	l := e2e.Raise(t, top)
	e2e.Must(
		t,
		l.Node("porthos"),
		"tc",
		"qdisc",
		"replace",
		"dev",
		"eth1",
		"root",
		"tbf",
		"rate",
		"4mbit",
		"burst",
		"3000",
		"limit",
		"1000000",
	)
	e2e.AwaitRouting(t, l)
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer)
	go func() {
		text, err := l.Node("porthos").Command(t.Context(), e2e.Program, "queue", "--json", "--count", "4").Output()
		answers <- answer{string(text), err}
	}()
	const count = 150
	for range 3 { // datagrams of 1100 bytes and their headers: 2.5 ms each
		time.Sleep(time.Second)
		e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count / 3, Size: 1100, Port: 9000})
	}
	got := <-answers
	if got.err != nil {
		t.Fatal(got.err)
	}
	packets, slowest := map[string]uint64{}, map[string]time.Duration{}
	for line := range strings.Lines(got.text) {
		var q api.Queues
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			t.Fatal(err)
		}
		if q.Fault != "" || len(q.Interfaces) != 2 {
			t.Errorf("%s", line)
		}
		for _, in := range q.Interfaces {
			packets[in.Interface] += in.Packets
			if in.P95 != nil {
				slowest[in.Interface] = max(slowest[in.Interface], time.Duration(*in.P95))
			}
		}
	}
	// Neighbours are found meanwhile, too, and some machines do not trace every packet.
	if n := packets["eth1"]; n < count/2 || n > count+10 {
		t.Errorf("%d packets were timed at eth1", n)
	}
	if slowest["eth1"] < 40*time.Millisecond || slowest["eth1"] > 500*time.Millisecond || slowest["eth0"] > slowest["eth1"]/2 {
		t.Errorf("the slowest are %v", slowest)
	}
	// With the key, the first router's metrics have its own queue, which is empty.
	if text := scrape(t, l.Node("athos")); !strings.Contains(text, `waymark_queue_delay_seconds_bucket{interface="eth1",le=`) {
		t.Errorf("no queue in\n%s", text)
	}
}

// scrape reads a node's metrics.
func scrape(t *testing.T, n *lab.Node) string {
	t.Helper()
	var text []byte
	err := n.Do(func() error {
		conn, err := net.Dial("tcp", "[::1]:9598")
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := fmt.Fprint(conn, "GET /metrics HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		text, err = io.ReadAll(conn)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
