// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
)

// ownPort is where the test sends its own packets: the demonstration sends none there.
const ownPort = 7001

// The test's own packets: a round has one for each source port, so that they take both paths, and half of them are more
// than the slow queue lets pass at once.
const (
	ownFlows  = 24
	ownRounds = 25
	ownOctets = 1000 // of a packet's data
)

// sendOwn sends packets from alpha to beta, and says how many were sent, and how many came.
func sendOwn(t *testing.T, l *lab.Lab) (sent, arrived int) {
	t.Helper()
	to := &net.UDPAddr{IP: net.ParseIP("2001:db8:2::2"), Port: ownPort}
	var in *net.UDPConn
	var out [ownFlows]*net.UDPConn
	err := l.Node("beta").Do(func() (err error) {
		in, err = net.ListenUDP("udp6", to)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.SetReadBuffer(1 << 20); err != nil { // a busy machine reads late
		t.Fatal(err)
	}
	came := make(chan int, 1)
	go func() {
		n := 0
		for buffer := make([]byte, ownOctets); ; n++ {
			if _, err := in.Read(buffer); err != nil {
				came <- n
				return
			}
		}
	}()
	for i := range out {
		err := l.Node("alpha").Do(func() (err error) {
			out[i], err = net.DialUDP("udp6", &net.UDPAddr{Port: 42001 + i}, to)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer out[i].Close()
	}
	for range ownRounds {
		for _, conn := range out {
			if _, err := conn.Write(make([]byte, ownOctets)); err != nil {
				t.Fatal(err)
			}
			sent++
		}
		time.Sleep(120 * time.Millisecond)
	}
	// The slow queue holds one for half a second at most.
	if err := in.SetReadDeadline(time.Now().Add(patience.Of(2 * time.Second))); err != nil {
		t.Fatal(err)
	}
	return sent, <-came
}

// goldLost is how many packets of the measured flow gold the link has lost.
func goldLost(t *testing.T, l *lab.Lab) uint64 {
	t.Helper()
	list, err := l.Losses()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list {
		if one.LastSID.IsValid() {
			return one.LostPackets
		}
	}
	t.Fatalf("%+v", list)
	return 0
}

// screen is what a browser shows of an address.
type screen struct {
	Heading, Text, CSV string
	Wrong              []string
}

// rows are those of the table, by the titles of columns.
func (s *screen) rows(t *testing.T) (rows []map[string]string) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(s.CSV)).ReadAll()
	if err != nil || len(all) == 0 {
		t.Fatalf("%v: %q", err, s.CSV)
	}
	for _, values := range all[1:] {
		row := map[string]string{}
		for i, value := range values {
			row[all[0][i]] = value
		}
		rows = append(rows, row)
	}
	return rows
}

// column adds up a column of the rows for which is is true.
func (s *screen) column(t *testing.T, title string, is func(row map[string]string) bool) (sum int) {
	t.Helper()
	for _, row := range s.rows(t) {
		if !is(row) {
			continue
		}
		n, err := strconv.Atoi(row[title])
		if err != nil {
			t.Errorf("%s of %v: %v", title, row, err)
		}
		sum += n
	}
	return sum
}

// browse opens addresses of the console in a browser.
func browse(t *testing.T, url string, visits ...map[string]any) (list []screen) {
	t.Helper()
	plan, err := json.Marshal(map[string]any{"address": url, "visits": visits})
	if err != nil {
		t.Error(err)
	}
	browser := exec.CommandContext(t.Context(), "node", "../../../collector/internal/browsertest/browser.mjs")
	var faults bytes.Buffer
	browser.Stdin, browser.Stderr = bytes.NewReader(plan), &faults
	out, err := browser.Output()
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil || len(list) != len(visits) {
		t.Errorf("%v: %.2000s%s", err, out, faults.String())
		return nil
	}
	for i, s := range list {
		for _, wrong := range s.Wrong {
			t.Errorf("%v: %s", visits[i]["path"], wrong)
		}
	}
	return list
}

// compareScreens wants that a browser shows as many packets as the test sent, and as many lost ones as did not come;
// and of the measured flow as many as the link lost.
func (a asked) compareScreens(name string) {
	t := a.t
	l, err := lab.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf("destination_port=%d", ownPort)
	seen, done := []screen(nil), make(chan struct{})
	wait := patience.Of(6 * time.Second) // after the first packet, until the last one is joined
	// The live screen is there before the packets are, the others follow.
	go func() {
		defer close(done)
		seen = browse(t, a.url,
			map[string]any{"path": "/live?rate=1000&" + own, "await": "packets in the last minute;", "wait": wait.Milliseconds(), "csv": true},
			map[string]any{"path": "/?since=5m&" + own, "csv": true},
			map[string]any{"path": "/grid?since=5m&" + own, "csv": true},
			map[string]any{"path": "/packets?since=5m&limit=10000&" + own, "csv": true},
			map[string]any{"path": "/loss?since=1h", "csv": true},
			map[string]any{"path": "/segments?since=5m&" + own, "csv": true},
			map[string]any{"path": "/changes?since=5m&window=2s&destination=" + movingAddress, "csv": true},
		)
	}()
	sent, arrived := sendOwn(t, l)
	lost, least := sent-arrived, goldLost(t, l)
	<-done
	if len(seen) == 0 {
		t.FailNow()
	}
	most := goldLost(t, l)
	every := func(map[string]string) bool { return true }
	gold := func(row map[string]string) bool { return row["Flow"] == "gold" && row["Scope"] == "whole" }
	last := func(is bool) func(row map[string]string) bool {
		return func(row map[string]string) bool { return (row["To"] == "aramis") == is }
	}
	rows := func(s *screen, text string) int { return strings.Count(s.CSV, text) }
	// Of some that did not come, a busy machine does not know it: then the screens must not say that they are lost.
	to, unknown := fmt.Sprintf("[2001:db8:2::2]:%d,", ownPort), rows(&seen[3], ",unknown,")
	for what, numbers := range map[string][2]int{
		"packets in Paths":          {seen[1].column(t, "Packets", every), sent},
		"lost ones in Paths":        {seen[1].column(t, "Lost", every), lost - unknown},
		"packets that came in Grid": {seen[2].column(t, "Packets", last(true)), arrived},
		"others in Grid":            {seen[2].column(t, "Packets", last(false)), lost},
		"packets lost in Grid":      {seen[2].column(t, "Lost", last(false)), lost - unknown},
		"packets in Packets":        {rows(&seen[3], to), sent},
		"lost ones in Packets":      {rows(&seen[3], ",lost,"), lost - unknown},
	} {
		if numbers[0] != numbers[1] {
			t.Errorf("%s: %d, and it should be %d\n%s", what, numbers[0], numbers[1], seen[1].CSV)
		}
	}
	left := 0 // a stream of more packets than it keeps leaves some out, and says how many
	if m := regexp.MustCompile(`([\d ]+) more are left out`).FindStringSubmatch(seen[0].Text); m != nil {
		left, _ = strconv.Atoi(strings.Join(strings.Fields(m[1]), ""))
	}
	if n := rows(&seen[0], to); n > sent || n+left < sent || n == 0 || rows(&seen[0], ",lost\r\n") > lost {
		t.Errorf("Live shows %d of %d packets, and leaves out %d: %s", n, sent, left, seen[0].Heading)
	}
	// What the blocks lost that are not over yet, or are uncertain, is in no sum.
	if got := uint64(seen[4].column(t, "Lost", gold)); got > most || got < least && seen[4].column(t, "Uncertain", gold) == 0 || got == 0 {
		t.Errorf("gold lost %d packets, and the link %d before and %d after: %s", got, least, most, seen[4].Text)
	}
	t.Logf("%d sent, %d lost, of %d of them the collector does not know it; %s", sent, lost, unknown, seen[0].Heading)
	t.Logf("gold lost %d to %d", least, most)
	seen[5].compareSlowQueue(t)
	seen[6].compareMoves(t)
}

// What the lab's network does: see package consoledemo.
const (
	queueRate     = 500_000 // octets a second
	queueBurst    = 3072    // octets that do not wait
	queueMost     = 500 * time.Millisecond
	moveEvery     = 2 * time.Second // by the flag --move
	movingAddress = "2001:db8:2::b"
)

// compareSlowQueue wants that the segment with the slow queue is the one with the longest delays, which are those that
// the queue makes of a round.
func (s *screen) compareSlowQueue(t *testing.T) {
	t.Helper()
	const slow = "dartagnan eth1 → aramis"
	delay, packets, worst := map[string]time.Duration{}, 0, ""
	for _, row := range s.rows(t) {
		name, ns := row["Segment"], row["Link p95"]
		if ns == "" {
			continue // what was lost
		}
		whole, err := strconv.ParseFloat(ns, 64)
		if err != nil {
			t.Errorf("%v: %v", row, err)
		}
		if delay[name] = time.Duration(whole); worst == "" || delay[name] > delay[worst] {
			worst = name
		}
		if strings.HasPrefix(name, slow) {
			packets, err = strconv.Atoi(row["Packets"])
			if err != nil {
				t.Errorf("%v: %v", row, err)
			}
		}
	}
	// The last tenth of a round waits for what is before it; half of that if some rounds are sent slowly.
	ahead := packets / ownRounds * ownOctets * 9 / 10
	least := time.Duration(max(0, ahead-queueBurst)) * time.Second / queueRate / 2
	if !strings.HasPrefix(worst, slow) || least == 0 || delay[worst] < least || delay[worst] > queueMost {
		t.Errorf("the slowest is %q of %v; it should be %s, from %v to %v\n%s", worst, delay, slow, least, queueMost, s.CSV)
	}
	t.Logf("%s has a p95 of %v; at least %v of the queue", worst, delay[worst], least)
}

// compareMoves wants that each change is at the begin of a period, when the lab moved the packets, to the path of that
// period.
func (s *screen) compareMoves(t *testing.T) {
	t.Helper()
	ways, moves := []string{"porthos", "dartagnan"}, 0
	for _, row := range s.rows(t) {
		at, err := time.Parse(time.RFC3339Nano, row["Time"])
		if err != nil {
			t.Fatalf("%v: %v", row, err)
		}
		period := at.UnixNano() / int64(moveEvery)
		to, from := ways[period%2], ways[(period+1)%2]
		if !at.Equal(time.Unix(0, period*int64(moveEvery))) || row["Destination"] != movingAddress ||
			row["From"] != "athos → "+from+" → aramis" || row["To"] != "athos → "+to+" → aramis" {
			t.Errorf("a change that the lab did not make, which moved to %s: %v", to, row)
		}
		moves++
	}
	if moves < 3 {
		t.Errorf("%d changes, and the lab moves packets every %v: %s", moves, moveEvery, s.Text)
	}
	t.Logf("%d changes", moves)
}
