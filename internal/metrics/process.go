// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// goValue is a metric of Go's runtime: the sum of samples of runtime/metrics.
type goValue struct {
	Desc
	samples []string
}

// Names that stand in several sums.
const (
	classes     = "/memory/classes/"
	heapObjects = classes + "heap/objects:bytes"
	heapUnused  = classes + "heap/unused:bytes"
	heapFree    = classes + "heap/free:bytes"
	heapGone    = classes + "heap/released:bytes"
	heapStacks  = classes + "heap/stacks:bytes"
	spanInUse   = classes + "metadata/mspan/inuse:bytes"
	cacheInUse  = classes + "metadata/mcache/inuse:bytes"
	tinyAllocs  = "/gc/heap/tiny/allocs:objects"
)

func goGauge(name, help string, samples ...string) goValue {
	return goValue{Desc{Name: "go_" + name, Help: help}, samples}
}

// goValues have the names that Prometheus' client library gave them.
var goValues = []goValue{
	goGauge("gc_gogc_percent", "How much the heap may grow before the next collection (GOGC).", "/gc/gogc:percent"),
	goGauge("gc_gomemlimit_bytes", "Limit of the memory of Go's runtime (GOMEMLIMIT).", "/gc/gomemlimit:bytes"),
	goGauge("sched_gomaxprocs_threads", "Threads that may run Go code at the same time (GOMAXPROCS).", "/sched/gomaxprocs:threads"),
	goGauge("memstats_alloc_bytes", "Bytes of objects in the heap.", heapObjects),
	goGauge("memstats_alloc_bytes_total", "Bytes allocated in the heap so far.", "/gc/heap/allocs:bytes"),
	goGauge("memstats_sys_bytes", "Bytes obtained from the system.", classes+"total:bytes"),
	goGauge("memstats_mallocs_total", "Objects allocated in the heap so far.", "/gc/heap/allocs:objects", tinyAllocs),
	goGauge("memstats_frees_total", "Objects freed in the heap so far.", "/gc/heap/frees:objects", tinyAllocs),
	goGauge("memstats_heap_alloc_bytes", "Bytes of objects in the heap.", heapObjects),
	goGauge("memstats_heap_sys_bytes", "Bytes of the heap obtained from the system.", heapObjects, heapUnused, heapGone, heapFree),
	goGauge("memstats_heap_idle_bytes", "Bytes of the heap that wait for use.", heapGone, heapFree),
	goGauge("memstats_heap_inuse_bytes", "Bytes of the heap in use.", heapObjects, heapUnused),
	goGauge("memstats_heap_released_bytes", "Bytes of the heap given back to the system.", heapGone),
	goGauge("memstats_heap_objects", "Objects in the heap.", "/gc/heap/objects:objects"),
	goGauge("memstats_stack_inuse_bytes", "Bytes of stacks in use.", heapStacks),
	goGauge("memstats_stack_sys_bytes", "Bytes of stacks obtained from the system.", heapStacks, classes+"os-stacks:bytes"),
	goGauge("memstats_mspan_inuse_bytes", "Bytes of mspan structures in use.", spanInUse),
	goGauge("memstats_mspan_sys_bytes", "Bytes of mspan structures obtained from the system.", spanInUse, classes+"metadata/mspan/free:bytes"),
	goGauge("memstats_mcache_inuse_bytes", "Bytes of mcache structures in use.", cacheInUse),
	goGauge("memstats_mcache_sys_bytes", "Bytes of mcache structures obtained from the system.", cacheInUse, classes+"metadata/mcache/free:bytes"),
	goGauge("memstats_buck_hash_sys_bytes", "Bytes of the table of profiles.", classes+"profiling/buckets:bytes"),
	goGauge("memstats_gc_sys_bytes", "Bytes of the collector's metadata.", classes+"metadata/other:bytes"),
	goGauge("memstats_other_sys_bytes", "Bytes of other allocations.", classes+"other:bytes"),
	goGauge("memstats_next_gc_bytes", "Bytes of the heap at which the next collection begins.", "/gc/heap/goal:bytes"),
}

var (
	descGoInfo     = &Desc{"go_info", "Go's version; the value is 1.", []string{"version"}}
	descGoroutines = &Desc{Name: "go_goroutines", Help: "Goroutines."}
	descThreads    = &Desc{Name: "go_threads", Help: "Threads of the system that Go has made."}
	descLastGC     = &Desc{Name: "go_memstats_last_gc_time_seconds", Help: "When the last collection ended, in seconds since 1970."}

	descProcessor = &Desc{Name: "process_cpu_seconds_total", Help: "Processor time of the user and of the system, in seconds."}
	descOpenFiles = &Desc{Name: "process_open_fds", Help: "Open file descriptors."}
	descMostFiles = &Desc{Name: "process_max_fds", Help: "Most file descriptors that may be open."}
	descVirtual   = &Desc{Name: "process_virtual_memory_bytes", Help: "Bytes of virtual memory."}
	descMost      = &Desc{Name: "process_virtual_memory_max_bytes", Help: "Most bytes of virtual memory."}
	descResident  = &Desc{Name: "process_resident_memory_bytes", Help: "Bytes of resident memory."}
	descStarted   = &Desc{Name: "process_start_time_seconds", Help: "When the process started, in seconds since 1970."}
	descReceived  = &Desc{Name: "process_network_receive_bytes_total", Help: "Bytes that the process' network namespace received over IP."}
	descSent      = &Desc{Name: "process_network_transmit_bytes_total", Help: "Bytes that the process' network namespace sent over IP."}
)

// Process adds the metrics of Go's runtime and of this process, go_… and
// process_…. What cannot be read is left out.
func Process(g *Gatherer) {
	addRuntime(g)
	addCollections(g)
	addUsage(g)
	addNetwork(g)
}

func addRuntime(g *Gatherer) {
	g.Add(descGoInfo, 1, runtime.Version())
	g.Add(descGoroutines, float64(runtime.NumGoroutine()))
	threads, _ := runtime.ThreadCreateProfile(nil)
	g.Add(descThreads, float64(threads))
	for i := range goValues {
		samples := make([]metrics.Sample, len(goValues[i].samples))
		for j, name := range goValues[i].samples {
			samples[j].Name = name
		}
		metrics.Read(samples)
		var sum float64
		for _, s := range samples {
			if s.Value.Kind() == metrics.KindUint64 {
				sum += float64(s.Value.Uint64())
			}
		}
		g.Add(&goValues[i].Desc, sum)
	}
}

// addCollections adds how long collections of garbage stopped the program.
func addCollections(g *Gatherer) {
	stats := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&stats)
	add := func(suffix, labels string, value float64) {
		g.add("go_gc_duration_seconds", "How long collections of garbage stopped the program.", "summary", series{suffix, labels, value})
	}
	for i, pause := range stats.PauseQuantiles {
		add("", fmt.Sprintf("quantile=%q", strconv.FormatFloat(float64(i)/4, 'g', -1, 64)), pause.Seconds())
	}
	add("_sum", "", stats.PauseTotal.Seconds())
	add("_count", "", float64(stats.NumGC))
	g.Add(descLastGC, float64(stats.LastGC.UnixNano())/1e9)
}

// addUsage adds what the process uses, and how much it may.
func addUsage(g *Gatherer) {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) == nil {
		g.Add(descProcessor, float64(usage.Utime.Nano()+usage.Stime.Nano())/1e9)
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		g.Add(descOpenFiles, float64(len(files)-1)) // without that of the directory
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		g.Add(descMostFiles, float64(limit.Cur))
	}
	if unix.Getrlimit(unix.RLIMIT_AS, &limit) == nil {
		g.Add(descMost, float64(limit.Cur))
	}
	if memory, err := fields("/proc/self/statm", 2); err == nil {
		g.Add(descVirtual, memory[0]*float64(os.Getpagesize()))
		g.Add(descResident, memory[1]*float64(os.Getpagesize()))
	}
	if at, err := started(); err == nil {
		g.Add(descStarted, at)
	}
}

var errFormat = errors.New("this file has another format")

// fields are the first numbers of a file.
func fields(file string, n int) ([]float64, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(string(content))
	if len(words) < n {
		return nil, errFormat
	}
	list := make([]float64, n)
	for i := range list {
		if list[i], err = strconv.ParseFloat(words[i], 64); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// started is when the process started, in seconds since 1970.
func started() (float64, error) {
	const (
		perSecond = 100 // ticks of /proc (USER_HZ)
		startTime = 22 - 3
	)
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // after the program's name, and the field after it
	words := strings.Fields(rest)
	if len(words) <= startTime {
		return 0, errFormat
	}
	ticks, err := strconv.ParseFloat(words[startTime], 64)
	if err != nil {
		return 0, err
	}
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, "btime "); ok {
			booted, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return booted + ticks/perSecond, err
		}
	}
	return 0, errFormat
}

// addNetwork adds the octets of IP in the network namespace.
func addNetwork(g *Gatherer) {
	content, err := os.ReadFile("/proc/self/net/netstat")
	if err != nil {
		return
	}
	var names []string
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "IpExt:" {
			continue
		}
		if names == nil {
			names = words
			continue
		}
		for i, name := range names[:min(len(names), len(words))] {
			value, err := strconv.ParseFloat(words[i], 64)
			switch {
			case err != nil:
			case name == "InOctets":
				g.Add(descReceived, value)
			case name == "OutOctets":
				g.Add(descSent, value)
			}
		}
	}
}
