// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/stamp"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// portsOf are the ports of a node's UDP sockets; an attacker would try all.
func portsOf(t *testing.T, l *lab.Lab, node string) (ports []uint16) {
	t.Helper()
	var text []byte
	if err := l.Node(node).Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/udp6")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		_, port, _ := strings.Cut(strings.Fields(line)[1], ":")
		if b, err := hex.DecodeString(port); err == nil && i > 0 && len(b) == 2 {
			n, _ := strconv.ParseUint(port, 16, 16)
			ports = append(ports, uint16(n))
		}
	}
	return ports
}

// forgedAnswer is a reply about a flow's block with the number of a question: all that can be known
// without seeing one.
func forgedAnswer(t *testing.T, flow string, block uint64, number uint32) []byte {
	t.Helper()
	const constantSSID = 0x574d // that of all questions once
	p := stamp.ReflectorPacket{
		Sequence:  number,
		SSID:      constantSSID,
		Error:     0x8001,
		Sender:    stamp.SenderPacket{Sequence: number, Timestamp: stamp.NTP.Timestamp(time.Now().UnixNano(), 0)},
		SenderTTL: 255,
	}
	p.Received, p.Timestamp = p.Sender.Timestamp, p.Sender.Timestamp
	b := make([]byte, stamp.Unauthenticated.BaseLen())
	p.Put(b, stamp.Unauthenticated)
	message := blocks.Message{Length: time.Second, Block: block, ClockError: int64(time.Millisecond), Entries: []blocks.Entry{
		{Flow: blocks.KeyOf(flow), State: blocks.Answered, Counters: blocks.Counters{Packets: 77, Octets: 7700, Complete: true}},
	}}
	b, err := stamp.AppendTLV(b, 0, blocks.Type, message.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// forgeAnswers has a host that is not on the way answer in the name of the egress, whose agent has died. It knows
// everything but what is in the questions: no block becomes a measurement.
func forgeAnswers(t *testing.T, l *lab.Lab) {
	t.Helper()
	r := observe(t, l)
	r.awaitExact(t, south)
	e2e.SignalAgent(t, l, "egress", syscall.SIGKILL)
	died := time.Now()
	var raw *icmpv6.Sender
	if err := l.Node("alpha").Do(func() (err error) { raw, err = icmpv6.NewSender(); return err }); err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		datagrams(t, l, 10_000, toSouth)
	}()
	ports, sent := portsOf(t, l, "ingress"), 0
	for attacking := true; attacking; {
		select {
		case <-done:
			attacking = false
		case <-time.After(30 * time.Millisecond):
		}
		block := uint64(time.Now().UnixNano()-int64(500*time.Millisecond))/uint64(time.Second) - 1
		for number := range uint32(50) {
			answer := forgedAnswer(t, "south", block, number)
			for _, port := range ports {
				b := craft.Between("2001:db8:45::2", "2001:db8:14::1", craft.UDP).With(craft.Datagram(stamp.Port, port, answer...))
				if raw.Send(craft.Seal(bytes.Clone(b))) == nil {
					sent++
				}
			}
		}
	}
	r.awaitAfter(t, time.Now(), south)
	measured := 0
	for _, each := range r.lossesOf(south) {
		if each.Start.After(died) && each.Sent.Value > 0 {
			if measured++; each.Verdict != loss.Uncertain {
				t.Errorf("block %d: %v, %d sent, %+v lost", each.Block.Value, each.Verdict, each.Sent.Value, each.Lost)
			}
		}
	}
	replies := e2e.StatusOf(t, l, "ingress").Measurement.QuestionReplies
	t.Logf("%d forged answers to %d ports, %d blocks, %v", sent, len(ports), measured, replies)
	if measured < 3 || replies["unexpected"] == 0 {
		t.Errorf("the test proves nothing: %d blocks, replies %v", measured, replies)
	}
}
