// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath/queue"
	"github.com/waymark-net/waymark/internal/model"
)

const (
	// alarmFor is for how long after an alarm the queues are measured.
	alarmFor = time.Minute
	// standing is at how many looks in sequence packets wait in a queue that does not run empty. Packets
	// also wait for an instant where none is slow.
	standing = 3
)

// alarm looks whether queues drop packets or fill, as the kernel counts it without a program.
type alarm struct {
	last   time.Time // when a queue did so last
	looked time.Time
	queues map[model.IfIndex]load
}

// load is what one queue had at the last look.
type load struct {
	dropped uint64
	waiting int // looks in sequence at which packets waited
}

// look looks at the queues of served interfaces, at most about once a period: others wake the service more often.
func (a *alarm) look(served []model.Interface, disciplines map[model.IfIndex]queue.Discipline, now time.Time) {
	if now.Sub(a.looked) < period*9/10 {
		return
	}
	a.looked = now
	next := make(map[model.IfIndex]load, len(served))
	for _, in := range served {
		d, there := disciplines[in.Index]
		if !there {
			continue
		}
		before, known := a.queues[in.Index]
		at := load{dropped: d.Dropped}
		if d.Waiting > 0 {
			at.waiting = before.waiting + 1
		}
		if at.waiting >= standing || known && d.Dropped > before.dropped {
			a.last = now
		}
		next[in.Index] = at
	}
	a.queues = next
}

// look reads the kernel's queues if they are of use, and says whether the configuration, an alarm, a stream
// or a look wants them to be measured.
func (q *Queues) look(state *service.State, now time.Time) (disciplines map[model.IfIndex]queue.Discipline, wanted bool, err error) {
	how := state.Config.Node.QueueDelay
	if how != config.QueueDelayAlarm {
		q.alarm = alarm{}
	}
	wanted = how == config.QueueDelayAlways || q.watchers > 0 || now.Sub(q.looked) < lookFor
	if !wanted && how != config.QueueDelayAlarm {
		return nil, false, nil
	}
	if disciplines, err = q.d.Machine.Disciplines(); err == nil && how == config.QueueDelayAlarm {
		q.alarm.look(state.Resolved.Node.Interfaces, disciplines, now)
		wanted = wanted || now.Sub(q.alarm.last) < alarmFor
	}
	return disciplines, wanted, err
}
