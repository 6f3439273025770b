// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/loss"
)

// fakeTaps have packets that come while they are read.
type fakeTaps struct {
	packets []datapath.Unserved
	read    time.Time
	follows []int64
	left    int
	err     error
}

func (f *fakeTaps) Read() []datapath.Unserved {
	time.Sleep(10 * time.Millisecond)
	f.read = time.Now()
	defer func() { f.packets = nil }()
	return f.packets
}

func (f *fakeTaps) Follow(noticed time.Time) (int, error) {
	f.follows = append(f.follows, noticed.UnixNano())
	return f.left, f.err
}

// TestUnservedLooks checks when packets at interfaces that are not served are said to have
// come, and that a change which could not be followed is followed later, as of its own time.
func TestUnservedLooks(t *testing.T) {
	var log bytes.Buffer
	u := NewUnservedInterfaces(Dependencies{Datapath: agenttest.NewDatapath(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	f := &fakeTaps{err: errors.New("no memory")}
	within := func(from, to time.Time) loss.Reasons {
		return u.d.Datapath.Coverage().Within("red", coverage.Arrivals, from.UnixNano(), to.UnixNano())
	}

	u.Changed()
	noticed := u.changed.Load()
	last := u.recordUnserved(f, time.Now())
	u.Changed()
	last = u.recordUnserved(f, last)
	f.err, f.left = nil, 3
	last = u.recordUnserved(f, last)
	last = u.recordUnserved(f, last)
	u.Changed()
	last = u.recordUnserved(f, last)
	if len(f.follows) != 4 || f.follows[0] != noticed || f.follows[1] != noticed || f.follows[2] != noticed || f.follows[3] <= noticed {
		t.Errorf("followed %v; noticed at %d", f.follows, noticed)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 || !strings.Contains(log.String(), "no memory") ||
		!strings.Contains(log.String(), "3 interfaces are not looked at") {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}

	before := last.Add(-time.Millisecond)
	f.packets = []datapath.Unserved{{Interface: "eth9", Flow: "red", Packets: 1}}
	u.recordUnserved(f, last)
	if within(last.Add(-time.Hour), before) != 0 || within(f.read, f.read) != loss.UnservedInterface || within(time.Now(), time.Now()) != 0 {
		t.Error("the gap is not from the last look to the end of the reading")
	}
	u.differs(always)
	u.recordUnserved(f, time.Now())
	f.packets = []datapath.Unserved{{Interface: "eth9", Flow: "red", Packets: 1, Since: time.Unix(0, f.follows[len(f.follows)-1])}}
	u.recordUnserved(f, time.Now())
	if within(last.Add(-time.Hour), before) != loss.UnservedInterface {
		t.Error("what came before the first look is not in the gap")
	}
}
