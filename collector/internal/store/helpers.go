// SPDX-License-Identifier: Apache-2.0

package store

/*
#include <stdint.h>

// Does up to most tasks of a database. It waits for each, but no longer than 5 ms.
void duckdb_execute_tasks(void *database, uint64_t most);
*/
import "C"

import (
	"reflect"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/duckdb/duckdb-go/v2"
)

// helpers are threads that help the database with questions and rollups, but not with writing. Threads of its own would
// take tasks of that, too, and a writer waits for each: with the priority of questions, they need seconds for a checkpoint
// on a machine without time to spare.
type helpers struct {
	database unsafe.Pointer
	working  sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	wanted  int // calls that are helped
	inside  int // helpers that look for a task, or have one
	paused  bool
	ended   bool
}

// handleOf is the handle of a database in its interface for C, which the driver has in a field of its own; nil: there is no
// such field.
func handleOf(c *duckdb.Connector) unsafe.Pointer {
	field := reflect.ValueOf(c).Elem().FieldByName("db")
	if !field.IsValid() || field.Kind() != reflect.Struct {
		return nil
	}
	if field = field.FieldByName("Ptr"); !field.IsValid() || field.Kind() != reflect.UnsafePointer {
		return nil
	}
	return field.UnsafePointer()
}

// startHelpers starts a number of threads, or none without a handle.
func startHelpers(database unsafe.Pointer, number int) *helpers {
	h := &helpers{database: database}
	h.changed = sync.NewCond(&h.mu)
	if database == nil {
		return h
	}
	for range number {
		h.working.Go(func() {
			runtime.LockOSThread()  // for ever: the thread ends with its priority
			_ = lower(niceQuestion) // the first question says why it fails
			h.work()
		})
	}
	return h
}

func (h *helpers) work() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.ended {
		if h.wanted == 0 || h.paused {
			h.changed.Wait()
			continue
		}
		h.inside++
		h.mu.Unlock()
		C.duckdb_execute_tasks(h.database, 1)
		h.mu.Lock()
		if h.inside--; h.paused {
			h.changed.Broadcast()
		}
	}
}

// change changes what the threads look at, and wakes them.
func (h *helpers) change(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
	h.changed.Broadcast()
}

// help calls a function, and helps with its queries.
func (h *helpers) help(do func() error) error {
	h.change(func() { h.wanted++ })
	defer h.change(func() { h.wanted-- })
	return do()
}

// pause keeps the threads from beginning with a task, until resume. One that has a task goes on with it.
func (h *helpers) pause()  { h.change(func() { h.paused = true }) }
func (h *helpers) resume() { h.change(func() { h.paused = false }) }

// looksFor is longer than a helper looks for a task, unless it gets no processor.
const looksFor = 10 * time.Millisecond

// awaitLooking waits until those that looked for a task when the threads were paused have found none. One that is not back after
// looksFor most likely has a task of a question.
func (h *helpers) awaitLooking() {
	late := false
	timer := time.AfterFunc(looksFor, func() { h.change(func() { late = true }) })
	defer timer.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.inside > 0 && !late {
		h.changed.Wait()
	}
}

// end ends the threads.
func (h *helpers) end() {
	h.change(func() { h.ended = true })
	h.working.Wait()
}
